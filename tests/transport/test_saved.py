"""Solves that are cut off and go on from a file."""

import numpy as np
import pytest

from bispectral_ot import InputError, Sinkhorn, runtime
from bispectral_ot.costs import Cost
from bispectral_ot.store import read_record, write_record
from bispectral_ot.transport import iteration


@pytest.fixture
def cost():
    random = np.random.default_rng(0)
    return Cost(random.normal(size=(90, 3)), random.normal(size=(70, 3)), "sqeuclidean")


@pytest.fixture(autouse=True)
def write_every_time(monkeypatch):
    monkeypatch.setattr(iteration, "EVERY", 0.0)


def cut_off(solver, cost, path, *, after):
    passes = []

    def stop(stage, done, total):
        passes.append(done)
        if len(passes) == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), runtime.running(progress=stop):
        solver.solve(cost, state=path)


@pytest.mark.parametrize(
    ("options", "after"), [({"reg": 0.05}, 2), ({"reg": 1e-3}, 9), ({"reg": 0.01, "unbalanced": (None, 0.02)}, 9)]
)
def test_a_solve_that_was_cut_off_goes_on(tmp_path, cost, options, after):
    solver, path = Sinkhorn(tol=1e-9, **options), tmp_path / "solve.npz"
    cut_off(solver, cost, path, after=after)
    assert path.exists()
    said = []
    with runtime.running(message=said.append):
        whole, rest = solver.solve(cost), solver.solve(cost, state=path)
    assert rest.converged
    assert rest.iterations < whole.iterations + 5
    assert 0 == whole.resumed_at < rest.resumed_at <= after
    assert said == [f"transport: resumed at iteration {rest.resumed_at}"]
    assert rest.transport_cost == pytest.approx(whole.transport_cost, rel=1e-6)
    assert not path.exists()


def test_a_file_of_another_problem_is_refused(tmp_path, cost):
    path = tmp_path / "solve.npz"
    cut_off(Sinkhorn(reg=0.05, tol=1e-9), cost, path, after=3)
    with pytest.raises(InputError, match="another solve"):
        Sinkhorn(reg=0.04).solve(cost, state=path)
    write_record(path, {**read_record(path), "f": np.full(90, np.nan)})
    with pytest.raises(InputError, match="another solve"):
        Sinkhorn(reg=0.05, tol=1e-9).solve(cost, state=path)
    for content in (b"something else", b""):
        path.write_bytes(content)
        with pytest.raises(InputError, match="not the state of a solve"):
            Sinkhorn(reg=0.05).solve(cost, state=path)
