"""Active entries and Newton steps against literal versions on small plans."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from bispectral_ot.transport.active import ActiveEntries, find_active

from bispectral_ot.transport.newton import newton
from transport_problems import problem, scaled, weights

UNIT = float(np.log2(np.e)) / 0.01
N, M = 40, 31


@pytest.fixture
def pool():
    with ThreadPoolExecutor(2) as executor:
        yield executor


@pytest.fixture(params=["float32", "compact", "recompute"])
def cost(request):
    return problem(N, M, storage=request.param)


def row_normalized(exponents, g, p):
    """The plan (n, m) whose rows sum to p, and its f, by the log-sum-exp of each row."""
    f = np.log2(p) - np.logaddexp2.reduce(g - exponents, axis=1)
    return np.exp2(f[:, None] + g - exponents), f


def everything(cost, pool) -> ActiveEntries:
    found = find_active(
        cost, UNIT, np.zeros(N), np.zeros(M), weights(N), np.ones(M), log2_cut=-np.inf, max_density=1.0, pool=pool
    )
    assert found is not None
    return found


def test_gathered_are_the_entries_above_the_mark_of_their_row_or_column(cost, pool):
    p, g = weights(N), np.random.default_rng(1).normal(size=M)
    exponents = scaled(cost) * UNIT
    plan, f = row_normalized(exponents, g, p)
    log2_cut = -8.0
    active = find_active(cost, UNIT, f, g, p, plan.sum(axis=0), log2_cut=log2_cut, max_density=1.0, pool=pool)
    share = 2.0**log2_cut
    expected = (plan > share * p[:, None]) | (plan > share * plan.sum(axis=0))
    # entries within rounding of the mark may fall on either side
    clear = (abs(plan / (share * p[:, None]) - 1) > 1e-3) & (abs(plan / (share * plan.sum(axis=0)) - 1) > 1e-3)
    found = np.zeros((N, M), dtype=bool)
    rows = np.repeat(np.arange(N), np.diff(active.starts))
    found[rows, active.columns] = True
    assert 0 < found.sum() < N * M
    assert (found == expected)[clear].all()
    assert active.exponents == pytest.approx(exponents[rows, active.columns], abs=1e-4)


def test_too_many_active_entries_are_none(cost, pool):
    few = {"log2_cut": -np.inf, "max_density": 0.1, "pool": pool}
    assert find_active(cost, UNIT, np.zeros(N), np.zeros(M), weights(N), np.ones(M), **few) is None


@pytest.mark.parametrize("guess", [0.0, 5000.0, -5000.0])
def test_a_sweep_over_all_entries_is_the_literal_iteration(cost, pool, guess):
    p, g = weights(N, zeros=3), np.random.default_rng(2).normal(size=M)
    f = np.full(N, guess)
    sums = everything(cost, pool).sweep(f, g, p, pool)
    has_mass = p > 0
    plan, expected = row_normalized(scaled(cost)[has_mass] * UNIT, g, p[has_mass])
    assert f[has_mass] == pytest.approx(expected, abs=1e-3)
    assert (f[~has_mass] == guess).all()
    assert sums == pytest.approx(plan.sum(axis=0), rel=1e-3)


def test_newton_reaches_the_marginals_in_few_points_and_stops_when_told(cost, pool):
    p, q = weights(N), weights(M, seed=5)
    active, tried = everything(cost, pool), []

    def record(error: float) -> bool:
        tried.append(error)
        return True

    f, g = newton(active, np.zeros(N), np.zeros(M), p, q, 1e-10, reach=np.inf, record=record, pool=pool)
    rows = np.repeat(np.arange(N), np.diff(active.starts))
    masses = np.exp2(f[rows] + g[active.columns] - active.exponents)
    assert np.bincount(rows, masses) == pytest.approx(p, abs=1e-12)
    assert np.abs(np.bincount(active.columns, masses) - q).sum() < 1e-10
    assert tried[-1] < 1e-10
    assert len(tried) < 60  # plain iterations need hundreds

    stopped = newton(active, np.zeros(N), np.zeros(M), p, q, 1e-10, reach=np.inf, record=lambda _: False, pool=pool)
    assert (stopped[1] == 0).all()
    points = len(tried)
    tried.clear()
    newton(active, np.zeros(N), np.zeros(M), p, q, 1e-10, reach=1.0, record=record, pool=pool)
    assert 1 < len(tried) < points
