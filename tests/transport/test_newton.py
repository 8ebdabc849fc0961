"""Steps of the iteration: Newton on the entries that carry mass, and Anderson acceleration of known fixed points."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from bispectral_ot.transport.iteration import Anderson, newton
from transport_problems import problem, weights

N, M = 40, 31


@pytest.fixture
def active() -> csr_array:
    cost = problem(N, M)
    unit = float(np.log2(np.e)) / (0.01 * cost.scale)
    everything = np.full(N, -np.inf), np.full(M, -np.inf)
    return cost.gather(np.zeros(N), np.zeros(M), *everything, unit=unit, max_density=1.0)


def solve(active: csr_array, *, limit: float = np.inf, reach: float = np.inf, zeros: int = 0):
    """Weights, potentials, and errors of the points that were tried, of ``limit`` at most."""
    p, q, errors = weights(N, zeros=zeros), weights(M, seed=5, zeros=zeros), []

    def record(error: float) -> bool:
        errors.append(error)
        return len(errors) < limit

    start = np.where(q > 0, 0.0, -1e30)
    f, g = newton(active, start, p, q, 1e-10, reach=reach, record=record)
    assert not start[q > 0].any()
    return p, q, f, g, errors


@pytest.mark.parametrize("zeros", [0, 5])
def test_newton_reaches_the_marginals_in_few_points(active, zeros):
    p, q, f, g, errors = solve(active, zeros=zeros)
    rows = np.repeat(np.arange(N), np.diff(active.indptr))
    masses = np.where(p[rows] > 0, np.exp2(f[rows] + g[active.indices] - active.data), 0)
    np.testing.assert_allclose(np.bincount(rows, masses), p, atol=1e-12)
    columns = np.bincount(active.indices, masses)
    assert np.abs(columns - q).sum() < 1e-10
    assert errors[-1] == pytest.approx(np.abs(columns - q).sum(), abs=1e-14)
    assert len(errors) < 60  # plain iterations need hundreds


def test_newton_tries_no_more_points_than_allowed_and_stops_once_other_entries_may_matter(active):
    for limit in (1, 2, 5):
        _, _, _, g, errors = solve(active, limit=limit)
        assert len(errors) == limit
        assert (limit == 1) == (g == 0).all()
    _, _, _, g, near = solve(active, reach=1.0)
    assert np.abs(g).max() >= 1.0
    assert 1 < len(near) < len(solve(active)[-1])


def iterate(accelerate: bool, steps: int) -> float:
    """Distance from the fixed point of a slow linear map after some steps."""
    generator = np.random.default_rng(0)
    basis, _ = np.linalg.qr(generator.normal(size=(30, 30)))
    slow = basis @ np.diag(np.linspace(0.0, 0.99, 30)) @ basis.T
    shift = generator.normal(size=30)
    x, anderson = np.zeros(30), Anderson()
    for _ in range(steps):
        image = slow @ x + shift
        x = anderson.next(x, image) if accelerate else image
    return float(np.abs(x - np.linalg.solve(np.eye(30) - slow, shift)).max())


def test_anderson_gets_there_sooner_than_plain_steps_and_leaves_a_fixed_point_alone():
    assert iterate(True, 60) < 1e-3 * iterate(False, 60)
    anderson, x = Anderson(), np.arange(5.0)
    for _ in range(4):
        np.testing.assert_allclose(anderson.next(x, x.copy()), x)


def test_equal_or_infinite_residuals_do_not_send_anderson_away():
    """A constant drift has no fixed point: extrapolating to it would go to infinity."""
    anderson, x = Anderson(), np.zeros(3)
    for _ in range(6):
        new = anderson.next(x, x + 1.0)
        assert np.abs(new - x).max() <= 20
        x = new
    image = np.array([np.inf, 1.0, 1.0])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(anderson.next(np.ones(3), image), image)
