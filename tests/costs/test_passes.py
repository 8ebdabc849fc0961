"""The passes of a cost against literal versions: one Sinkhorn iteration, gathered entries, and summaries of a plan."""

import numpy as np
import pytest
from numba import njit

import pass_oracles as literal
from bispectral_ot import runtime
from bispectral_ot.costs import Cost
from bispectral_ot.costs.cost_kernels import exp2


@pytest.fixture(scope="module", params=literal.COSTS, ids=str)
def cost(request):
    return literal.random_cost(*request.param)


def random_weights(n, seed, zeros=0):
    generator = np.random.default_rng(seed)
    values = generator.uniform(0.1, 1, n)
    values[generator.permutation(n)[:zeros]] = 0
    return values / values.sum()


@njit
def exp2_of_all(x, out):
    for i in range(x.shape[0]):
        out[i] = exp2(x[i])


@pytest.mark.parametrize(
    ("dtype", "lowest", "highest", "accuracy"),
    [(np.float32, -125.0, 126.0, 3e-7), (np.float64, -1021.0, 1022.0, 2e-15)],
)
def test_the_exponential_over_its_whole_range_and_beyond(dtype, lowest, highest, accuracy):
    generator = np.random.default_rng(0)
    whole = np.arange(lowest, highest + 1)  # integers, and the halves where rounding changes
    halves = whole[:-1] + 0.5
    few = [generator.uniform(lowest, highest, 200_000), generator.uniform(-1, 1, 50_000)]
    x = np.concatenate([*few, whole, halves, np.nextafter(halves, 1e9)]).astype(dtype)
    found, exact = np.empty_like(x), np.exp2(x.astype(np.longdouble))
    exp2_of_all(x, found)
    assert (np.abs(found - exact) / exact).max() <= accuracy
    # -1e30 stands for no mass, denormal numbers are slow, and a large exponent must not run into the sign bit
    beyond = np.array([lowest - 0.5, 10 * lowest, -1e30, highest + 1, 4 * highest + 8, 2048, 1e30], dtype=dtype)
    found = np.empty_like(beyond)
    exp2_of_all(beyond, found)
    np.testing.assert_allclose(found, [2.0**lowest] * 3 + [2.0**highest] * 4, rtol=3e-7)


@pytest.mark.parametrize(
    ("dtype", "damping", "guess"), [(np.float64, 1.0, 0.0), (np.float64, 0.3, -5000.0), (np.float32, 0.5, 300.0)]
)
def test_a_sweep_is_the_literal_iteration(cost, dtype, damping, guess):
    n, m = cost.shape
    unit = 40 / cost.maximum
    weights, g = random_weights(n, 1, zeros=3), np.random.default_rng(2).normal(scale=5, size=m)
    f, sums = cost.sweep(np.full(n, guess), g, weights, unit=unit, damping=damping, dtype=dtype)
    expected_f, expected_sums = literal.sweep(literal.entries(cost), np.full(n, guess), g, weights, unit, damping)
    assert f.dtype == sums.dtype == np.float64
    error = literal.exponent_error(cost, unit)
    if dtype is np.float32:
        error += 4e-5  # exponents of up to 60, rounded a few times to 24 bits
    np.testing.assert_allclose(f, expected_f, rtol=1e-13 if dtype is np.float64 else 1e-7, atol=error)
    np.testing.assert_allclose(sums, expected_sums, rtol=2 * error)


@pytest.mark.parametrize(("dtype", "exponent"), [(np.float32, 1.0), (np.float32, 1e5), (np.float64, 1e5)])
def test_rows_sum_to_their_weights_at_any_regularisation_and_columns_without_mass_get_none(cost, dtype, exponent):
    n, m = cost.shape
    unit, weights, g = exponent / cost.maximum, random_weights(n, 3), np.where(np.arange(m) % 5 == 0, -1e30, 0.0)
    f, sums = cost.sweep(np.zeros(n), g, weights, unit=unit, dtype=dtype)
    # what float32 rounds off an exponent is a fraction of its size
    tolerance = 1e-9 if dtype is np.float64 else 1e-6 + exponent * 2.0**-22
    np.testing.assert_allclose(cost.read(f, g, unit=unit).row_sums, weights, rtol=tolerance)
    assert sums.sum() == pytest.approx(1, rel=1e-5 if dtype is np.float32 else 1e-12)
    assert sums[::5].max() < (1e-15 if dtype is np.float32 else 1e-200)


def test_gathered_are_the_entries_above_the_mark_of_their_row_or_column(cost):
    (n, m), unit = cost.shape, 100 / cost.maximum
    generator = np.random.default_rng(2)
    f, g = generator.normal(size=n), generator.normal(size=m)
    low_rows, low_columns = generator.uniform(-20, -5, n), generator.uniform(-20, -5, m)
    low_rows[::7] = 1e9
    exponents = unit * literal.entries(cost)
    height = f[:, None] + g - exponents
    expected = (height > low_rows[:, None]) | (height > low_columns)
    # entries within rounding of a mark may fall on either side
    near = np.minimum(abs(height - low_rows[:, None]), abs(height - low_columns))
    error = literal.exponent_error(cost, unit)
    active = cost.gather(f, g, low_rows, low_columns, unit=unit, max_density=1.0)
    found, rows = np.zeros((n, m), dtype=bool), np.repeat(np.arange(n), np.diff(active.indptr))
    found[rows, active.indices] = True
    assert 0 < found.sum() == active.nnz < n * m
    assert (found == expected)[near > error].all()
    np.testing.assert_allclose(active.data, exponents[rows, active.indices], atol=error)
    assert cost.gather(f, g, low_rows - 100, low_columns - 100, unit=unit, max_density=0.1) is None


def test_a_sweep_of_active_entries_is_the_literal_iteration_without_the_others(cost):
    (n, m), unit = cost.shape, 300 / cost.maximum
    weights, g = random_weights(n, 1, zeros=3), np.random.default_rng(2).normal(size=m)
    f, columns = cost.sweep(np.zeros(n), g, weights, unit=unit)
    marks = np.log2(np.where(weights > 0, weights, 1e300)) - 4, np.log2(columns) - 4
    gathered = cost.gather(f, g, *marks, unit=unit, max_density=1.0).toarray() / unit
    expected_f, expected_sums = literal.sweep(np.where(gathered > 0, gathered, np.inf), f, g, weights, unit, 0.5)
    found, sums = cost.active(f, g, *marks, unit=unit).sweep(f + 300, g, weights, unit=unit, damping=0.5)
    np.testing.assert_allclose(found[weights > 0], expected_f[weights > 0], atol=1e-9)
    np.testing.assert_allclose(sums, expected_sums, rtol=1e-9)


@pytest.fixture(scope="module")
def potentials(cost):
    """f (some -inf) and g (some as good as that) of a plan with entries of all sizes, and the unit."""
    n, m = cost.shape
    generator = np.random.default_rng(7)
    f, g = generator.normal(scale=4, size=n), generator.normal(scale=4, size=m)
    f[5::11], g[4::9] = -np.inf, -1e30
    return f, g, 50 / cost.maximum


@pytest.mark.parametrize("k", [0, 31])
def test_sums_best_targets_and_class_masses_are_those_of_the_plan(cost, potentials, k):
    (n, m), (f, g, unit), calls = cost.shape, potentials, []
    generator = np.random.default_rng(8)
    sources, targets = generator.integers(-1, 4, n), generator.integers(-1, 6, m)
    sources[0], targets[0] = 3, 5
    costs = literal.entries(cost)
    plan, error = literal.plan(costs, f, g, unit), 2 * literal.exponent_error(cost, unit)
    with runtime.running(progress=lambda *call: calls.append(call)):
        found = cost.read(f, g, unit=unit, k=k, source_labels=sources, target_labels=targets)
    assert calls[-1] == ("summary", n, n)
    near, atol = {"rtol": error, "atol": 1e-290}, 2.0**-21 * cost.maximum  # 16 bits decoded in float32, as block does
    np.testing.assert_allclose(found.row_sums, plan.sum(axis=1), **near)
    np.testing.assert_allclose(found.column_sums, plan.sum(axis=0), **near)
    assert found.transport_cost == pytest.approx((plan * costs).sum(), rel=error + 1e-12)
    np.testing.assert_allclose(found.top_masses, -np.sort(-plan, axis=1)[:, :k], **near)
    np.testing.assert_allclose(np.take_along_axis(plan, found.top_indices, axis=1), found.top_masses, **near)
    assert all(len(set(row)) == k for row in found.top_indices.tolist())
    np.testing.assert_allclose(found.top_costs, np.take_along_axis(costs, found.top_indices, axis=1), atol=atol)
    lowest = costs.min(axis=1) if k else np.zeros(n)
    np.testing.assert_allclose(found.nearest_costs, lowest, atol=atol)
    assert not k or np.allclose(costs[np.arange(n), found.nearest], lowest, rtol=0, atol=atol)
    by_target = np.stack([plan[:, targets == c].sum(axis=1) for c in range(6)], axis=1)
    by_source = np.stack([plan[sources == c].sum(axis=0) for c in range(4)])
    np.testing.assert_allclose(found.source_class_mass, by_target, **near)
    np.testing.assert_allclose(found.target_class_mass, by_source, **near)
    without = cost.read(f, g, unit=unit, source_labels=None, target_labels=np.full(m, -1))
    assert (without.source_class_mass.shape, without.target_class_mass.shape) == ((n, 0), (0, m))


def test_of_equal_masses_and_costs_the_first_comes_first():
    found = Cost.from_matrix([[3.0, 1.0, 1.0, 3.0, 1.0]]).read(np.zeros(1), np.zeros(5), unit=1.0, k=5)
    assert (found.top_indices.tolist(), found.nearest.tolist()) == ([[1, 2, 4, 0, 3]], [1])


def test_class_kernels_are_the_literal_sums(cost):
    m = cost.shape[1]
    entries, labels, width = literal.entries(cost), np.arange(m) % 3, cost.maximum / 20
    sums, smallest = cost.class_kernels(labels, 4, width=width)
    np.testing.assert_allclose(smallest, entries.min(axis=1), rtol=1e-6)
    for place, divisor in enumerate((9, 3, 1)):
        kernels = np.exp(-(entries - entries.min(axis=1, keepdims=True)) * divisor / width)
        expected = np.stack([kernels[:, labels == label].sum(axis=1) for label in range(4)], axis=1)
        np.testing.assert_allclose(sums[..., place], expected, rtol=1e-4, atol=1e-30)
