"""The passes of a cost against literal versions: one Sinkhorn iteration, rows of a plan, and what is read off it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pass_oracles as literal
from bispectral_ot import runtime
from bispectral_ot.costs import Cost


@pytest.fixture(scope="module", params=literal.COSTS, ids=str)
def cost(request):
    return literal.random_cost(*request.param)


def random_weights(n, seed, zeros=0):
    generator = np.random.default_rng(seed)
    values = generator.uniform(0.1, 1, n)
    values[generator.permutation(n)[:zeros]] = 0
    return values / values.sum()


# Sweeps


@pytest.mark.parametrize(("damping", "guess"), [(1.0, 0.0), (0.9, 5000.0), (0.3, -5000.0)])
def test_a_sweep_in_float64_is_the_literal_iteration(cost, damping, guess):
    n, m = cost.shape
    unit = 40 / cost.maximum
    weights, g = random_weights(n, 1, zeros=3), np.random.default_rng(2).normal(scale=5, size=m)
    f, sums = cost.sweep(np.full(n, guess), g, weights, unit=unit, damping=damping)
    expected_f, expected_sums = literal.sweep(literal.entries(cost), np.full(n, guess), g, weights, unit, damping)
    error = literal.exponent_error(cost, unit)
    np.testing.assert_allclose(f, expected_f, rtol=1e-13, atol=error)
    np.testing.assert_allclose(sums, expected_sums, rtol=2 * error)


@pytest.mark.parametrize(("damping", "guess"), [(1.0, 0.0), (0.5, 300.0), (1.0, -300.0)])
def test_a_sweep_in_float32_is_near_it(cost, damping, guess):
    n, m = cost.shape
    unit = 40 / cost.maximum
    weights, g = random_weights(n, 1, zeros=3), np.random.default_rng(2).normal(scale=5, size=m)
    f, sums = cost.sweep(np.full(n, guess), g, weights, unit=unit, damping=damping, dtype=np.float32)
    expected_f, expected_sums = literal.sweep(literal.entries(cost), np.full(n, guess), g, weights, unit, damping)
    assert f.dtype == sums.dtype == np.float64
    error = literal.exponent_error(cost, unit) + 4e-5  # exponents of up to 60, rounded a few times to 24 bits
    np.testing.assert_allclose(f, expected_f, rtol=1e-7, atol=error)
    np.testing.assert_allclose(sums, expected_sums, rtol=error)


@pytest.mark.parametrize(("dtype", "exponent"), [(np.float32, 1.0), (np.float32, 1e5), (np.float64, 1e5)])
def test_rows_sum_to_their_weights_at_any_regularisation(cost, dtype, exponent):
    n, m = cost.shape
    unit = exponent / cost.maximum
    weights = random_weights(n, 3)
    f, sums = cost.sweep(np.zeros(n), np.zeros(m), weights, unit=unit, dtype=dtype)
    # what float32 rounds off an exponent is a share of its size
    tolerance = 1e-9 if dtype is np.float64 else 1e-6 + exponent * 2.0**-22
    np.testing.assert_allclose(cost.plan_rows(f, np.zeros(m), 0, n, unit=unit).sum(axis=1), weights, rtol=tolerance)
    assert sums.sum() == pytest.approx(1, rel=1e-5 if dtype is np.float32 else 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_without_mass_get_none(cost, dtype):
    n, m = cost.shape
    g = np.where(np.arange(m) % 5 == 0, -1e30, 0.0)
    _, sums = cost.sweep(np.zeros(n), g, random_weights(n, 4), unit=3.0, dtype=dtype)
    assert sums[::5].max() < (1e-30 if dtype is np.float32 else 1e-200)
    assert sums.sum() == pytest.approx(1, rel=1e-5)


@settings(max_examples=60)
@given(data=st.data())
def test_any_small_matrix_is_swept_right(data):
    n, m = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    numbers = st.lists(st.integers(0, 30), min_size=n * m, max_size=n * m)
    costs = np.array(data.draw(numbers), float).reshape(n, m)
    size = data.draw(st.sampled_from([1e-300, 1e-46, 1.0, 1e300]))
    dtype = data.draw(st.sampled_from([np.float32, np.float64])) if size == 1 else np.float64
    g = np.array(data.draw(st.lists(st.integers(-40, 40), min_size=m, max_size=m)), float)
    weights = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)), float)
    damping = data.draw(st.sampled_from([1.0, 0.75]))
    matrix = (costs * size).astype(dtype)
    f, sums = Cost.from_matrix(matrix).sweep(np.zeros(n), g, weights, unit=1 / size, damping=damping)
    expected_f, expected_sums = literal.sweep(costs, np.zeros(n), g, weights, 1.0, damping)
    np.testing.assert_allclose(f, expected_f, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sums, expected_sums, rtol=1e-11)


# Rows of the plan


@pytest.mark.parametrize(("start", "stop"), [(0, 40), (13, 29), (7, 7)])
def test_rows_of_the_plan(cost, start, stop):
    n, m = cost.shape
    unit, generator = 30 / cost.maximum, np.random.default_rng(6)
    f, g = generator.normal(scale=3, size=n), generator.normal(scale=3, size=m)
    f[::7] = -np.inf
    expected = literal.plan(literal.entries(cost), f, g, unit)[start:stop]
    found = cost.plan_rows(f, g, start, stop, unit=unit)
    np.testing.assert_allclose(found, expected, rtol=literal.exponent_error(cost, unit))


# What is read off a plan


@pytest.fixture(scope="module")
def potentials(cost):
    """f (some -inf) and g (some as good as that) of a plan with entries of all sizes, and the unit."""
    n, m = cost.shape
    generator = np.random.default_rng(7)
    f, g = generator.normal(scale=4, size=n), generator.normal(scale=4, size=m)
    f[5::11], g[4::9] = -np.inf, -1e30
    return f, g, 50 / cost.maximum


def test_sums_and_cost_are_those_of_the_plan(cost, potentials):
    f, g, unit = potentials
    costs = literal.entries(cost)
    plan, error = literal.plan(costs, f, g, unit), 2 * literal.exponent_error(cost, unit)
    found = cost.read(f, g, unit=unit)
    np.testing.assert_allclose(found.row_sums, plan.sum(axis=1), rtol=error, atol=1e-290)
    np.testing.assert_allclose(found.column_sums, plan.sum(axis=0), rtol=error, atol=1e-290)
    assert found.transport_cost == pytest.approx((plan * costs).sum(), rel=error + 1e-12)


@pytest.mark.parametrize("k", [1, 31])
def test_the_best_targets_their_masses_and_costs_are_those_of_the_plan(cost, potentials, k):
    f, g, unit = potentials
    costs = literal.entries(cost)
    plan, error = literal.plan(costs, f, g, unit), 2 * literal.exponent_error(cost, unit)
    found = cost.read(f, g, unit=unit, k=k)
    np.testing.assert_allclose(found.top_masses, -np.sort(-plan, axis=1)[:, :k], rtol=error, atol=1e-290)
    np.testing.assert_allclose(
        np.take_along_axis(plan, found.top_indices, axis=1), found.top_masses, rtol=error, atol=1e-290
    )
    assert all(len(set(row)) == k for row in found.top_indices.tolist())
    atol = 2.0**-21 * cost.maximum  # 16 bits decoded in float32, as block does
    np.testing.assert_allclose(found.top_costs, np.take_along_axis(costs, found.top_indices, axis=1), atol=atol)
    np.testing.assert_allclose(found.nearest_costs, costs.min(axis=1), atol=atol)
    np.testing.assert_allclose(costs[np.arange(len(costs)), found.nearest], costs.min(axis=1), atol=atol)


def test_without_best_targets_there_are_no_nearest_ones_either(cost, potentials):
    f, g, unit = potentials
    found = cost.read(f, g, unit=unit, k=0)
    assert found.top_indices.shape == found.top_masses.shape == found.top_costs.shape == (cost.shape[0], 0)
    assert not found.nearest.any()
    assert not found.nearest_costs.any()


def test_of_equal_masses_and_costs_the_first_comes_first():
    cost = Cost.from_matrix([[3.0, 1.0, 1.0, 3.0, 1.0]])
    found = cost.read(np.zeros(1), np.zeros(5), unit=1.0, k=5)
    assert found.top_indices.tolist() == [[1, 2, 4, 0, 3]]
    assert found.nearest.tolist() == [1]


@pytest.mark.parametrize("unlabelled", [True])
def test_class_masses_are_those_of_the_plan(cost, potentials, unlabelled):
    n, m = cost.shape
    f, g, unit = potentials
    generator = np.random.default_rng(8)
    sources, targets = (generator.integers(-1 if unlabelled else 0, c, size) for c, size in ((4, n), (6, m)))
    sources[0], targets[0] = 3, 5
    plan, error = literal.plan(literal.entries(cost), f, g, unit), 2 * literal.exponent_error(cost, unit)
    found = cost.read(f, g, unit=unit, source_labels=sources, target_labels=targets)
    by_target = np.stack([plan[:, targets == c].sum(axis=1) for c in range(6)], axis=1)
    by_source = np.stack([plan[sources == c].sum(axis=0) for c in range(4)])
    np.testing.assert_allclose(found.source_class_mass, by_target, rtol=error, atol=1e-290)
    np.testing.assert_allclose(found.target_class_mass, by_source, rtol=error, atol=1e-290)


@pytest.mark.parametrize("labels", [None, -1])
def test_without_labels_there_are_no_classes(cost, potentials, labels):
    n, m = cost.shape
    f, g, unit = potentials
    given_labels = {} if labels is None else {"source_labels": np.full(n, -1), "target_labels": np.full(m, -1)}
    found = cost.read(f, g, unit=unit, **given_labels)
    assert found.source_class_mass.shape == (n, 0)
    assert found.target_class_mass.shape == (0, m)


def test_progress_ends_at_the_number_of_rows(cost, potentials):
    f, g, unit = potentials
    calls = []
    with runtime.running(progress=lambda *call: calls.append(call)):
        cost.read(f, g, unit=unit)
    assert calls[-1] == ("summary", cost.shape[0], cost.shape[0])
