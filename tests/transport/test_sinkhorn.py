"""Sinkhorn against POT, known answers, and what it promises about convergence."""

from __future__ import annotations

import warnings

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bispectral_ot import runtime
from bispectral_ot.costs import STORAGES, Cost
from bispectral_ot.errors import InputError, NotConvergedWarning
from bispectral_ot.transport import ExactTransport, Sinkhorn
from transport_problems import marginal_error, points, problem, scaled, weights


def by_pot(cost, reg, p, q):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ot.bregman.sinkhorn_log(p, q, scaled(cost), reg, numItermax=20_000, stopThr=1e-11)


# Against POT


@pytest.mark.parametrize(("n", "m", "reg"), [(500, 400, 0.1), (45, 60, 0.02), (80, 80, 0.01), (9, 7, 0.003)])
@pytest.mark.parametrize("uniform", [False])
def test_the_plan_is_pots(n, m, reg, uniform):
    cost = problem(n, m, seed=n)
    p = np.full(n, 1 / n) if uniform else weights(n, seed=1)
    q = np.full(m, 1 / m) if uniform else weights(m, seed=2)
    coupling = Sinkhorn(reg=reg, tol=1e-8).solve(cost, p, q)
    difference = np.abs(coupling.to_dense() - by_pot(cost, reg, p, q))
    assert difference.max() <= 1e-6 / max(n, m)
    assert difference.sum() <= 1e-6


@pytest.mark.parametrize("metric", ["l1", "l2", "sqeuclidean", "cosine"])
def test_the_plan_is_pots_for_every_metric_and_elements_without_mass(metric):
    cost = problem(50, 40, metric=metric)
    p, q = weights(50, seed=3, zeros=7), weights(40, seed=4, zeros=5)
    plan = Sinkhorn(reg=0.02, tol=1e-9).solve(cost, p, q).to_dense()
    kept = np.ix_(p > 0, q > 0)
    part = Cost.from_matrix(cost.block(0, 50)[kept])
    # the largest cost, and with it the scale, may be that of an element without mass
    expected = by_pot(part, 0.02 * cost.scale / part.scale, p[p > 0], q[q > 0])
    assert np.abs(plan[kept] - expected).sum() <= 1e-6
    plan[kept] = 0
    assert plan.max() <= 1e-200


# Known answers


@pytest.mark.parametrize("reg", [1.0, 0.1, 0.02])
def test_two_points_on_two_points(reg):
    plan = Sinkhorn(reg=reg, tol=1e-10).solve(Cost.from_matrix([[0.0, 1.0], [1.0, 0.0]])).to_dense()
    stays, goes = 0.5 / (1 + np.exp(-1 / reg)), 0.5 / (1 + np.exp(1 / reg))
    np.testing.assert_allclose(plan, [[stays, goes], [goes, stays]], rtol=1e-8)


@settings(max_examples=30)
@given(
    costs=st.lists(st.integers(0, 8), min_size=4, max_size=4),
    p=st.floats(0.05, 0.95),
    q=st.floats(0.05, 0.95),
    reg=st.sampled_from([1.0, 0.3, 0.1]),
)
def test_two_weighted_points_on_two_have_the_cross_ratio_of_the_cost(costs, p, q, reg):
    (a, b), (c, d) = matrix = np.array(costs, float).reshape(2, 2)
    plan = Sinkhorn(reg=reg, tol=1e-10).solve(Cost.from_matrix(matrix), [p, 1 - p], [q, 1 - q]).to_dense()
    ratio = plan[0, 0] * plan[1, 1] / (plan[0, 1] * plan[1, 0])
    expected = np.exp((b + c - a - d) / (matrix.max() or 1) / reg)
    np.testing.assert_allclose(ratio, expected, rtol=1e-6)
    np.testing.assert_allclose(plan.sum(axis=1), [p, 1 - p], atol=1e-10)
    np.testing.assert_allclose(plan.sum(axis=0), [q, 1 - q], atol=1e-10)


@pytest.mark.parametrize(("n", "m", "reg"), [(1, 30, 0.1), (30, 1, 1e-4), (1, 1, 1e-3)])
def test_one_element_sends_or_gets_everything(n, m, reg):
    p, q = weights(n, seed=5), weights(m, seed=6)
    coupling = Sinkhorn(reg=reg, tol=1e-7).solve(problem(n, m), p, q)
    np.testing.assert_allclose(coupling.to_dense(), np.outer(p, q), rtol=1e-5)


@pytest.mark.parametrize("reg", [1.0, 1e-4])
@pytest.mark.parametrize("kind", ["zero", "constant", "sum of a row term and a column term"])
def test_a_cost_that_prefers_nobody_gives_the_product_of_the_weights(reg, kind):
    p, q = weights(12, seed=7), weights(17, seed=8)
    row_term, column_term = np.arange(12) / 16, np.arange(17) / 32  # exact in float32
    matrix = {
        "zero": np.zeros((12, 17)),
        "constant": np.full((12, 17), 3.0),
        "sum of a row term and a column term": row_term[:, None] + column_term,
    }[kind]
    coupling = Sinkhorn(reg=reg, tol=1e-7).solve(Cost.from_matrix(matrix), p, q)
    np.testing.assert_allclose(coupling.to_dense(), np.outer(p, q), rtol=1e-5)
    assert coupling.transport_cost == pytest.approx(p @ matrix @ q, rel=1e-6)


@pytest.mark.parametrize(("metric", "storage"), [("l1", "float32"), ("l2", "compact"), ("sqeuclidean", "recompute")])
def test_a_set_and_itself_shuffled_are_paired_at_no_cost(metric, storage):
    x = points(80, seed=9, columns=5)
    order = np.random.default_rng(10).permutation(80)
    cost = Cost(x[order], x, metric, storage=storage)
    coupling = Sinkhorn(reg=5e-4, tol=1e-6).solve(cost)
    np.testing.assert_array_equal(coupling.summary(k=1).top_indices[:, 0], order)
    assert coupling.transport_cost <= 1e-3 * cost.scale


def test_a_shift_is_recovered_with_its_length_as_the_distance():
    x = points(60, seed=11)
    coupling = Sinkhorn(reg=2e-4, tol=1e-6).solve(Cost(x, x + np.float32([0.02, 0]), "l2"))
    assert coupling.transport_cost == pytest.approx(0.02, rel=0.02)


def test_a_small_regularisation_approaches_the_exact_cost_from_above():
    cost = problem(40, 40)
    exact = ot.emd2(np.full(40, 1 / 40), np.full(40, 1 / 40), cost.block(0, 40).astype(np.float64))
    costs = [Sinkhorn(reg=reg, tol=1e-7).solve(cost).transport_cost for reg in (0.1, 0.01, 1e-3, 1e-4)]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == pytest.approx(exact, rel=2e-3)
    assert costs[-1] >= exact * (1 - 1e-6)


# Regularisations and tolerances


@pytest.mark.parametrize("reg", [10.0, 0.1, 0.01, 1e-3, 1e-4])
@pytest.mark.parametrize(("n", "m", "tol"), [(90, 70, 1e-3), (70, 150, 1e-7)])
def test_every_regularisation_reaches_every_tolerance(reg, tol, n, m):
    cost = problem(n, m, seed=12)
    coupling = Sinkhorn(reg=reg, tol=tol).solve(cost, weights(n, seed=13), weights(m, seed=14))
    plan = coupling.to_dense()
    assert np.isfinite(plan).all()
    assert (plan >= 0).all()
    assert coupling.converged
    assert marginal_error(plan, coupling.source_weights, coupling.target_weights) <= tol


@pytest.mark.parametrize(("n", "m", "spread", "seed"), [(20, 20, 1, 0), (60, 45, 4, 1), (700, 500, 4, 3)])
def test_weights_of_very_different_size_converge_at_a_tiny_regularisation(n, m, spread, seed):
    """From a rough start the error has to rise before it falls, and entries without mass come alive on the way."""
    generator = np.random.default_rng(seed)
    cost = Cost(generator.uniform(size=(n, 2)), generator.uniform(size=(m, 2)), "sqeuclidean")
    p, q = (10 ** generator.uniform(-spread, 0, size) for size in (n, m))
    coupling = Sinkhorn(reg=1e-4, tol=1e-7, max_iter=500).solve(cost, p / p.sum(), q / q.sum())
    assert marginal_error(coupling.to_dense(), p / p.sum(), q / q.sum()) <= 1e-7


def very_unequal(kind: str, n: int, seed: int):
    """Weights (n,) of which few have nearly all mass."""
    generator = np.random.default_rng(seed)
    values = {
        "a few elements": lambda: generator.dirichlet(np.full(n, 0.01)),
        "15 decades": lambda: 10 ** -generator.uniform(0, 15, n),
        "many zeros": lambda: np.where(np.arange(n) % 5 == 0, generator.uniform(size=n), 0.0),
        "decades and zeros": lambda: np.where(np.arange(n) % 2 == 0, 10 ** -generator.uniform(0, 15, n), 0.0),
        "three elements": lambda: np.where(np.arange(n) < 3, 1.0, 1e-12),
        "uniform": lambda: np.ones(n),
    }[kind]()
    return values / values.sum()


HARD_WEIGHTS = ["a few elements", "15 decades", "many zeros", "decades and zeros", "three elements", "uniform"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", HARD_WEIGHTS)
@pytest.mark.parametrize(("reg", "n", "m", "tol"), [(1e-4, 60, 60, 1e-4), (1e-6, 40, 25, 1e-8), (1e-5, 700, 500, 1e-4)])
def test_very_unequal_weights_take_no_more_than_some_hundred_passes(kind, reg, n, m, tol):
    """They took 10,000, because an error that is small in all says nothing of elements with little mass."""
    p, q = very_unequal(kind, n, seed=30), very_unequal(kind, m, seed=31)
    coupling = Sinkhorn(reg=reg, tol=tol).solve(problem(n, m, seed=32), p, q)
    assert coupling.converged
    assert coupling.iterations <= 500
    assert marginal_error(coupling.to_dense(), p, q) <= tol


@pytest.mark.parametrize("kinds", [("uniform", "a few elements"), ("15 decades", "many zeros")])
def test_very_unequal_weights_give_the_exact_cost_in_the_limit(kinds):
    p, q = very_unequal(kinds[0], 60, seed=33), very_unequal(kinds[1], 45, seed=34)
    coupling = Sinkhorn(reg=1e-6, tol=1e-8).solve(problem(), p, q)
    assert coupling.transport_cost == pytest.approx(ExactTransport().solve(problem(), p, q).transport_cost, rel=1e-4)


def test_a_hopeless_warm_start_is_given_up_for_a_cold_one():
    p, q = very_unequal("15 decades", 60, seed=35), very_unequal("many zeros", 45, seed=36)
    generator = np.random.default_rng(37)
    potentials = generator.normal(size=60), generator.normal(size=45)
    coupling = Sinkhorn(reg=1e-5, tol=1e-6).solve(problem(), p, q, potentials=potentials)
    assert coupling.converged
    assert coupling.iterations <= 1000


@pytest.mark.parametrize("max_iter", [1, 20, 60, 125])
def test_the_limit_of_iterations_is_kept_on_every_way(max_iter):
    p, q = very_unequal("15 decades", 700, seed=38), very_unequal("many zeros", 500, seed=39)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        coupling = Sinkhorn(reg=2e-3, tol=1e-12, max_iter=max_iter).solve(problem(700, 500), p, q)
    assert coupling.iterations <= max_iter
    assert coupling.reg == 2e-3


@pytest.mark.parametrize(("reg", "seed"), [(0.1, 0), (0.03, 1), (0.01, 2), (1e-3, 0)])
def test_tied_costs_and_repeated_points_converge(reg, seed):
    """Points of a coarse grid: masses differ by whole points, and plain steps change nothing for a long time."""
    generator = np.random.default_rng(seed)
    source, target = generator.integers(0, 3, (80, 2)), generator.integers(0, 3, (70, 2))
    coupling = Sinkhorn(reg=reg, tol=1e-6, max_iter=1000).solve(Cost(source, target, "l1"))
    assert np.isfinite([error for _, error in coupling.history]).all()
    plan = coupling.to_dense()
    first, second = (
        (source[:, None] == source).all(axis=2).argmax(axis=1),
        (target[:, None] == target).all(axis=2).argmax(axis=1),
    )
    np.testing.assert_allclose(plan, plan[first], rtol=1e-5, atol=1e-12)  # equal points, equal plans
    np.testing.assert_allclose(plan, plan[:, second], rtol=1e-2, atol=1e-7)


@pytest.mark.parametrize("reg", [0.1, 1e-4])
def test_two_clusters_of_unequal_mass_converge(reg):
    generator = np.random.default_rng(24)
    source, target = (
        np.concatenate([generator.normal(place, 0.05, (count, 2)) for place, count in sides])
        for sides in (((0, 50), (1, 50)), ((0, 40), (1, 60)))
    )
    assert Sinkhorn(reg=reg).solve(Cost(source, target, "l2")).converged


@pytest.mark.parametrize("reg", [1e-5, 1e-6])
def test_even_smaller_regularisations_give_finite_plans(reg):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        coupling = Sinkhorn(reg=reg, max_iter=300).solve(problem(30, 25))
    assert np.isfinite(coupling.to_dense()).all()
    assert np.isfinite([coupling.marginal_error, coupling.transport_cost]).all()


@pytest.mark.parametrize("reg", [0.05, 0.01, 1e-3])
def test_the_three_storages_agree(reg):
    p, q = weights(60, seed=15), weights(45, seed=16)
    couplings = [Sinkhorn(reg=reg, tol=1e-7).solve(problem(storage=storage), p, q) for storage in STORAGES]
    exact, compact, recomputed = couplings
    assert np.abs(exact.to_dense() - recomputed.to_dense()).sum() <= 2e-6 / reg * 1e-1
    # moving each cost by at most e changes the plan by a factor of exp(e / reg), a few times over
    relative_error = compact.cost.storage_error / compact.cost.scale
    assert np.abs(exact.to_dense() - compact.to_dense()).sum() <= 10 * relative_error / reg
    assert abs(exact.transport_cost - compact.transport_cost) <= 3 * compact.cost.storage_error


@settings(max_examples=60, derandomize=True)  # about one in 15,000 needs more iterations
@given(data=st.data())
def test_any_small_problem_is_solved(data):
    n, m = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    entries = data.draw(st.lists(st.integers(0, 20), min_size=n * m, max_size=n * m))
    cost = Cost.from_matrix(np.array(entries, float).reshape(n, m))
    masses = [
        np.array(data.draw(st.lists(st.integers(0, 5), min_size=k, max_size=k).filter(any)), float) for k in (n, m)
    ]
    p, q = (mass / mass.sum() for mass in masses)
    reg = data.draw(st.sampled_from([1.0, 0.1, 0.01]))
    coupling = Sinkhorn(reg=reg, tol=1e-6).solve(cost, p, q)
    plan = coupling.to_dense()
    assert coupling.converged
    assert marginal_error(plan, p, q) == pytest.approx(coupling.marginal_error, abs=1e-12)
    assert (plan[p == 0] <= 1e-200).all()
    assert (plan[:, q == 0] <= 1e-200).all()
    # optimal: log P + C / reg is a sum of a row term and a column term wherever there is mass
    rest = np.log(plan[np.ix_(p > 0, q > 0)]) + scaled(cost)[np.ix_(p > 0, q > 0)] / reg
    rest = rest - rest[:1] - rest[:, :1] + rest[0, 0]
    assert np.abs(rest).max() <= 1e-6


# What the result says of itself


@pytest.mark.parametrize("reg", [0.1, 0.01, 1e-3])
def test_the_measures_are_those_of_the_plan(reg):
    cost = problem()
    p, q = weights(60, seed=17, zeros=4), weights(45, seed=18, zeros=3)
    coupling = Sinkhorn(reg=reg, tol=1e-5).solve(cost, p, q)
    plan = coupling.to_dense()
    assert coupling.marginal_error == pytest.approx(marginal_error(plan, p, q), rel=1e-6, abs=1e-14)
    assert coupling.transport_cost == pytest.approx((plan * cost.block(0, 60)).sum(), rel=1e-9)
    positive = plan[plan > 0]
    assert coupling.entropy == pytest.approx(-(positive * np.log(positive)).sum(), rel=1e-6)
    f, g = coupling.source_potential, coupling.target_potential
    assert np.isneginf(f[p == 0]).all()
    assert np.isneginf(g[q == 0]).all()
    with np.errstate(under="ignore"):
        from_potentials = np.exp((f[:, None] + g - cost.block(0, 60)) / (reg * cost.scale))
    np.testing.assert_allclose(plan, from_potentials, rtol=1e-6, atol=1e-200)
    assert (coupling.reg, coupling.tol, coupling.shape) == (reg, 1e-5, (60, 45))
    assert coupling.epsilon == reg * cost.scale


@pytest.mark.parametrize("reg", [0.05, 1e-3])
def test_history_has_an_entry_for_each_iteration(reg):
    coupling = Sinkhorn(reg=reg, tol=1e-6).solve(problem())
    regs, errors = zip(*coupling.history, strict=True)
    assert isinstance(coupling.history, tuple)
    assert len(coupling.history) == coupling.iterations > 0
    assert list(regs) == sorted(regs, reverse=True)
    assert regs[-1] == reg
    assert np.isfinite(errors).all()
    assert errors[-1] <= 1e-6


def test_progress_tells_a_share_of_the_work():
    calls = []
    cost = problem()
    with runtime.running(progress=lambda *call: calls.append(call)):
        Sinkhorn(reg=1e-3, tol=1e-6).solve(cost)
    calls = [call for call in calls if call[0] == "transport"]
    assert {(stage, total) for stage, _, total in calls} == {("transport", 1000)}
    assert all(0 <= done <= 1000 for _, done, _ in calls)
    assert calls[-1][1] == 1000


def test_an_interrupt_ends_the_solve():
    def interrupt(stage, done, total):
        raise KeyboardInterrupt

    cost = problem()
    with pytest.raises(KeyboardInterrupt), runtime.running(progress=interrupt):
        Sinkhorn().solve(cost)


def test_solving_twice_gives_the_same_numbers():
    first, second = (Sinkhorn(reg=2e-3, tol=1e-6).solve(problem()) for _ in range(2))
    np.testing.assert_array_equal(first.source_potential, second.source_potential)
    np.testing.assert_array_equal(first.target_potential, second.target_potential)
    assert first.history == second.history


def test_the_number_of_threads_does_not_change_the_plan(monkeypatch):
    plans = []
    for threads in ("1", "5"):
        monkeypatch.setenv("BISPECTRAL_OT_THREADS", threads)
        plans.append(Sinkhorn(reg=0.01, tol=1e-8).solve(problem()).to_dense())
    np.testing.assert_allclose(*plans, rtol=1e-5, atol=1e-10)


@pytest.mark.parametrize("reg", [0.1, 0.01, 1e-3])
def test_swapping_the_sides_transposes_the_plan(reg):
    matrix = problem().block(0, 60)
    p, q = weights(60, seed=19), weights(45, seed=20)
    there = Sinkhorn(reg=reg, tol=1e-9).solve(Cost.from_matrix(matrix), p, q)
    back = Sinkhorn(reg=reg, tol=1e-9).solve(Cost.from_matrix(matrix.T), q, p)
    assert np.abs(there.to_dense() - back.to_dense().T).sum() <= 1e-6
    assert there.transport_cost == pytest.approx(back.transport_cost, rel=1e-6)


def test_the_unit_of_the_cost_does_not_matter():
    matrix = problem().block(0, 60)
    plans = [Sinkhorn(reg=0.01, tol=1e-8).solve(Cost.from_matrix(matrix * 2.0**k)).to_dense() for k in (-60, 0, 60)]
    np.testing.assert_allclose(plans[0], plans[1], rtol=1e-6)
    np.testing.assert_allclose(plans[2], plans[1], rtol=1e-6)


def test_costs_far_from_zero_keep_what_tells_them_apart():
    plan = Sinkhorn(reg=1e-9, tol=1e-6).solve([[1e8, 1e8 + 1], [1e8 + 1, 1e8]]).to_dense()
    stays, goes = 0.5 / (1 + np.exp(-10)), 0.5 / (1 + np.exp(10))
    np.testing.assert_allclose(plan, [[stays, goes], [goes, stays]], rtol=1e-5)


# The scale of the cost


@pytest.mark.parametrize("reg", [0.05, 1e-3])
@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_the_regularisation_is_relative_to_the_scale_of_the_cost(reg, factor):
    plain = problem()
    scaled_cost = problem(scale=factor * plain.scale)
    found, expected = Sinkhorn(reg=reg, tol=1e-9).solve(scaled_cost), Sinkhorn(reg=factor * reg, tol=1e-9).solve(plain)
    assert found.epsilon == pytest.approx(expected.epsilon, rel=1e-15)
    assert np.abs(found.to_dense() - expected.to_dense()).sum() <= 1e-7
    # potentials are in the units of the cost, and a common shift between them does not matter
    difference = found.source_potential - expected.source_potential
    np.testing.assert_allclose(difference, difference.mean(), atol=1e-6 * plain.scale)


# Options


@pytest.mark.parametrize("reg", [0.05, 0.01, 1e-3, 1e-4])
def test_a_warm_start_needs_fewer_iterations(reg):
    solver = Sinkhorn(reg=reg, tol=1e-6)
    cold = solver.solve(problem())
    again = solver.solve(problem(), potentials=(cold.source_potential, cold.target_potential))
    assert again.iterations <= 3
    assert again.converged
    assert np.abs(again.to_dense() - cold.to_dense()).sum() <= 1e-5
    nearby = Cost.from_matrix(problem().block(0, 60) * np.float32(1.01))
    warm = solver.solve(nearby, potentials=(cold.source_potential, cold.target_potential))
    assert warm.iterations < cold.iterations


@pytest.mark.parametrize("reg", [0.05, 1e-3])
@pytest.mark.parametrize("exponent", [-1100.0, -300.0, 512.0, 1e5])
def test_a_warm_start_that_is_off_by_many_powers_of_two_does_no_harm(reg, exponent):
    """Exponents that overflow must not be taken for others."""
    solver = Sinkhorn(reg=reg, tol=1e-7)
    expected = solver.solve(problem())
    off = exponent * expected.epsilon / np.log2(np.e)
    coupling = solver.solve(problem(), potentials=(expected.source_potential + off, expected.target_potential))
    assert np.abs(coupling.to_dense() - expected.to_dense()).sum() <= 1e-5
    assert coupling.entropy == pytest.approx(expected.entropy, rel=1e-4)


@pytest.mark.parametrize("noise", [0.01, 0.1, 0.5])
def test_a_warm_start_from_another_cost_and_regularisation_does_no_harm(noise):
    earlier = Sinkhorn(reg=0.01).solve(problem())
    generator = np.random.default_rng(21)
    cost = Cost.from_matrix(problem().block(0, 60) * generator.uniform(1 - noise, 1 + noise, (60, 45)))
    potentials = (earlier.source_potential, earlier.target_potential)
    for reg in (0.03, 2e-3):
        solver = Sinkhorn(reg=reg, tol=1e-8)
        difference = solver.solve(cost, potentials=potentials).to_dense() - solver.solve(cost).to_dense()
        assert np.abs(difference).sum() <= 1e-6


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("reg", [0.01, 1e-3])
def test_a_warm_start_that_leaves_columns_without_mass_does_no_harm(reg):
    potential = np.where(np.arange(45) < 20, -1e4, 1e4)
    coupling = Sinkhorn(reg=reg, tol=1e-6).solve(problem(), potentials=(np.zeros(60), potential))
    assert coupling.converged


def test_a_warm_start_takes_potentials_of_elements_without_mass():
    p, q = weights(60, seed=22, zeros=5), weights(45, seed=23, zeros=4)
    cold = Sinkhorn().solve(problem(), p, q)
    warm = Sinkhorn().solve(problem(), potentials=(cold.source_potential, cold.target_potential))
    assert warm.converged


# Failure and bad input


def test_an_unfinished_solve_warns_and_returns_the_best_plan_so_far():
    with pytest.warns(NotConvergedWarning, match=r"marginal error.*after 5 iterations.*1\.0e-10") as caught:
        coupling = Sinkhorn(reg=0.015, tol=1e-10, max_iter=5).solve(problem())
    assert caught[0].filename == __file__
    assert "NOT converged" in repr(coupling)
    assert not coupling.converged
    assert coupling.iterations == 5
    assert coupling.marginal_error > 1e-10
    assert np.isfinite(coupling.to_dense()).all()
    assert coupling.marginal_error == pytest.approx(
        marginal_error(coupling.to_dense(), coupling.source_weights, coupling.target_weights)
    )


@pytest.mark.parametrize(("max_iter", "reg"), [(1, 1e-3), (7, 0.05), (30, 1e-3)])
def test_the_limit_of_iterations_is_kept_and_the_result_is_for_the_regularisation_asked_for(max_iter, reg):
    with pytest.warns(NotConvergedWarning):
        coupling = Sinkhorn(reg=reg, tol=1e-18, max_iter=max_iter).solve(problem())
    assert coupling.iterations <= max_iter
    assert coupling.reg == reg
    cost = coupling.cost.block(0, 60).astype(np.float64)
    np.testing.assert_allclose(
        coupling.to_dense(),
        np.exp((coupling.source_potential[:, None] + coupling.target_potential - cost) / coupling.epsilon),
        rtol=1e-6,
        atol=1e-200,
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"reg": 0}, "reg"),
        ({"reg": -0.1}, "reg"),
        ({"reg": float("nan")}, "reg"),
        ({"reg": "small"}, "reg"),
        ({"reg": None}, "reg"),
        ({"reg": float("inf")}, "reg"),
        ({"tol": 0}, "tol"),
        ({"tol": -1e-3}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"max_iter": 0.5}, "max_iter"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        Sinkhorn(**options)


@pytest.mark.parametrize("potentials", [(np.zeros(45), np.zeros(60)), (np.zeros(60), np.zeros(44))])
def test_potentials_of_the_wrong_length_are_refused(potentials):
    with pytest.raises(InputError, match="potentials have shapes"):
        Sinkhorn().solve(problem(), potentials=potentials)
