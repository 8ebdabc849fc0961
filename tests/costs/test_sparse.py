"""Gathered entries and sweeps over them, against literal versions."""

from __future__ import annotations

import numpy as np
import pytest

import pass_oracles as literal
from bispectral_ot.costs import SparseCost


@pytest.fixture(scope="module", params=literal.COSTS, ids=str)
def cost(request):
    return literal.random_cost(*request.param)


@pytest.fixture(scope="module")
def unit(cost):
    return 100 / cost.maximum


def random_weights(n, zeros=0):
    values = np.random.default_rng(1).uniform(0.2, 1, n)
    values[:zeros] = 0
    return values / values.sum()


def gather(cost, f, g, unit, *, cut=-np.inf, max_density=1.0):
    low_rows, low_columns = np.full(cost.shape[0], cut), np.full(cost.shape[1], cut)
    return cost.gather(f, g, low_rows, low_columns, unit=unit, max_density=max_density)


def everything(cost, unit) -> SparseCost:
    found = gather(cost, np.zeros(cost.shape[0]), np.zeros(cost.shape[1]), unit)
    assert len(found.columns) == cost.shape[0] * cost.shape[1]
    return found


def test_gathered_are_the_entries_above_the_mark_of_their_row_or_column(cost, unit):
    n, m = cost.shape
    generator = np.random.default_rng(2)
    f, g = generator.normal(size=n), generator.normal(size=m)
    low_rows, low_columns = generator.uniform(-20, -5, n), generator.uniform(-20, -5, m)
    exponents = unit * literal.entries(cost)
    height = f[:, None] + g - exponents
    expected = (height > low_rows[:, None]) | (height > low_columns)
    # entries within rounding of a mark may fall on either side
    near = np.minimum(abs(height - low_rows[:, None]), abs(height - low_columns))
    error = literal.exponent_error(cost, unit)
    active = cost.gather(f, g, low_rows, low_columns, unit=unit, max_density=1.0)
    found = np.zeros((n, m), dtype=bool)
    rows = np.repeat(np.arange(n), np.diff(active.starts))
    found[rows, active.columns] = True
    assert 0 < found.sum() == len(active.columns) < n * m
    assert (found == expected)[near > error].all()
    np.testing.assert_allclose(active.exponents, exponents[rows, active.columns], atol=error)
    assert active.shape == (n, m)
    assert active.engine is cost.engine


def test_rows_without_an_entry_are_empty(cost, unit):
    n, m = cost.shape
    f = np.where(np.arange(n) % 3 == 0, -1e30, 0.0)
    active = gather(cost, f, np.zeros(m), unit, cut=-1e20)
    np.testing.assert_array_equal(np.diff(active.starts), np.where(np.arange(n) % 3 == 0, 0, m))


def test_too_many_entries_are_none(cost, unit):
    n, m = cost.shape
    f, g = np.zeros(n), np.zeros(m)
    assert gather(cost, f, g, unit, max_density=0.1) is None
    assert gather(cost, f, g, unit, cut=np.inf, max_density=0.1).columns.size == 0
    # entries of the cheapest tenth; a block may have a few more than its share
    cut = -np.quantile(unit * literal.entries(cost), 0.1)
    assert len(gather(cost, f, g, unit, cut=cut, max_density=0.4).columns) == pytest.approx(0.1 * n * m, rel=0.01)


@pytest.mark.parametrize("guess", [0.0, -5000.0])
def test_a_sweep_over_all_entries_is_the_literal_iteration(cost, unit, guess):
    n, m = cost.shape
    weights, g = random_weights(n, zeros=3), np.random.default_rng(3).normal(size=m)
    before = np.full(n, guess)
    f, sums = everything(cost, unit).sweep(before, g, weights)
    expected_f, expected_sums = literal.sweep(literal.entries(cost), before, g, weights, unit)
    error = literal.exponent_error(cost, unit)
    np.testing.assert_allclose(f, expected_f, rtol=1e-13, atol=error)
    np.testing.assert_allclose(sums, expected_sums, rtol=2 * error)
    assert (before == guess).all()


def test_a_sweep_over_some_entries_is_that_of_a_cost_which_is_infinite_elsewhere(cost, unit):
    n, m = cost.shape
    f, g, weights = np.zeros(n), np.random.default_rng(4).normal(size=m), random_weights(n)
    active = gather(cost, f, g, unit, cut=-15.0)
    rows = np.repeat(np.arange(n), np.diff(active.starts))
    costs = np.full((n, m), 1e9)
    costs[rows, active.columns] = active.exponents
    has_entries = np.diff(active.starts) > 0
    expected_f, expected_sums = literal.sweep(costs, f, g, np.where(has_entries, weights, 0), 1.0)
    found_f, sums = active.sweep(f, g, weights)
    assert 0 < len(rows) < n * m
    np.testing.assert_allclose(found_f, expected_f, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sums, expected_sums, rtol=1e-11)


def test_many_rows_are_swept_in_blocks(monkeypatch):
    from bispectral_ot.costs import sparse

    cost = literal.random_cost("float32", (300, 130))
    weights, g = random_weights(300), np.random.default_rng(5).normal(size=130)
    active = gather(cost, np.zeros(300), g, 30.0, cut=-12.0)
    whole = active.sweep(np.zeros(300), g, weights)
    monkeypatch.setattr(sparse, "_BLOCK_ROWS", 37)
    f, sums = active.sweep(np.zeros(300), g, weights)
    np.testing.assert_array_equal(f, whole[0])
    np.testing.assert_allclose(sums, whole[1], rtol=1e-13)
