"""Newton steps on the entries that carry mass, on small plans."""

from __future__ import annotations

import numpy as np
import pytest

from bispectral_ot.costs import SparseCost
from bispectral_ot.transport.newton import newton
from transport_problems import problem, weights

N, M = 40, 31


@pytest.fixture(params=["float32", "compact"])
def active(request) -> SparseCost:
    cost = problem(N, M, storage=request.param)
    unit = float(np.log2(np.e)) / (0.01 * cost.scale)
    everything = np.full(N, -np.inf), np.full(M, -np.inf)
    found = cost.gather(np.zeros(N), np.zeros(M), *everything, unit=unit, max_density=1.0)
    assert found is not None
    return found


class Record:
    """Errors of the points that were tried, of ``limit`` at most."""

    def __init__(self, limit: float = np.inf) -> None:
        self.errors: list[float] = []
        self.limit = limit

    def __call__(self, error: float) -> bool:
        self.errors.append(error)
        return len(self.errors) < self.limit


def solve(active: SparseCost, record: Record, *, reach: float = np.inf, zeros: int = 0):
    p, q = weights(N), weights(M, seed=5, zeros=zeros)
    start = np.where(q > 0, 0.0, -1e30)
    return p, q, *newton(active, np.zeros(N), start, p, q, 1e-10, reach=reach, record=record)


@pytest.mark.parametrize("zeros", [0, 5])
def test_it_reaches_the_marginals_in_few_points(active, zeros):
    record = Record()
    p, q, f, g = solve(active, record, zeros=zeros)
    rows = np.repeat(np.arange(N), np.diff(active.starts))
    masses = np.exp2(f[rows] + g[active.columns] - active.exponents)
    np.testing.assert_allclose(np.bincount(rows, masses), p, atol=1e-12)
    columns = np.bincount(active.columns, masses)
    assert np.abs(columns - q).sum() < 1e-10
    assert record.errors[-1] == pytest.approx(np.abs(columns - q).sum(), abs=1e-14)
    assert len(record.errors) < 60  # plain iterations need hundreds


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_it_tries_no_more_points_than_allowed(active, limit):
    record = Record(limit)
    _, _, _, g = solve(active, record)
    assert len(record.errors) == limit
    assert (limit == 1) == (g == 0).all()


def test_it_stops_once_other_entries_may_matter(active):
    near, far = Record(), Record()
    _, _, _, g = solve(active, near, reach=1.0)
    solve(active, far)
    assert np.abs(g).max() >= 1.0
    assert 1 < len(near.errors) < len(far.errors)


def test_what_it_is_given_stays_as_it_is(active):
    p, q, f, g = weights(N), weights(M, seed=5), np.zeros(N), np.zeros(M)
    newton(active, f, g, p, q, 1e-10, reach=np.inf, record=Record())
    assert not f.any()
    assert not g.any()
