"""Sinkhorn against POT, known answers, and what it promises about convergence."""

import warnings

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from bispectral_ot import runtime
from bispectral_ot.costs import Cost
from bispectral_ot.errors import InputError, NotConvergedWarning
from bispectral_ot.transport import ExactTransport, Sinkhorn
from transport_problems import marginal_error, points, problem, scaled, weights


def by_pot(cost, reg, p, q):
    with warnings.catch_warnings(action="ignore"):
        return ot.bregman.sinkhorn_log(p, q, scaled(cost), reg, numItermax=20_000, stopThr=1e-11)


@pytest.mark.parametrize(
    ("n", "m", "reg", "metric"),
    [(500, 400, 0.1, "l1"), (45, 60, 0.02, "l2"), (80, 80, 0.01, "cosine"), (9, 7, 0.003, "sqeuclidean")],
)
def test_the_plan_is_pots_also_with_elements_without_mass(n, m, reg, metric):
    cost = problem(n, m, seed=n, metric=metric)
    p, q = weights(n, seed=1, zeros=n // 8), weights(m, seed=2, zeros=m // 9)
    plan, kept = Sinkhorn(reg=reg, tol=1e-9).solve(cost, p, q).to_dense(), np.ix_(p > 0, q > 0)
    part = Cost.from_matrix(cost.block(0, n)[kept])
    # the largest cost, and with it the scale, may be that of an element without mass
    expected = by_pot(part, reg * cost.scale / part.scale, p[p > 0], q[q > 0])
    assert np.abs(plan[kept] - expected).sum() <= 1e-6
    plan[kept] = 0
    assert plan.max() <= 1e-200


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
    np.testing.assert_allclose(ratio, np.exp((b + c - a - d) / (matrix.max() or 1) / reg), rtol=1e-6)
    np.testing.assert_allclose(plan.sum(axis=1), [p, 1 - p], atol=1e-10)
    np.testing.assert_allclose(plan.sum(axis=0), [q, 1 - q], atol=1e-10)


@pytest.mark.parametrize("reg", [1.0, 1e-4])
@pytest.mark.parametrize(
    "matrix", [np.zeros((12, 17)), np.arange(12)[:, None] / 16 + np.arange(17) / 32, np.ones((1, 9))]
)
def test_a_cost_that_prefers_nobody_gives_the_product_of_the_weights(reg, matrix):
    p, q = weights(matrix.shape[0], seed=7), weights(matrix.shape[1], seed=8)
    coupling = Sinkhorn(reg=reg, tol=1e-7).solve(Cost.from_matrix(matrix), p, q)
    np.testing.assert_allclose(coupling.to_dense(), np.outer(p, q), rtol=1e-5)
    assert coupling.transport_cost == pytest.approx(p @ matrix @ q, rel=1e-6)


@pytest.mark.parametrize(("metric", "storage"), [("l1", "float32"), ("l2", "compact"), ("sqeuclidean", "recompute")])
def test_a_set_and_itself_shuffled_or_shifted_are_paired(metric, storage):
    x, order = points(80, seed=9, columns=2), np.random.default_rng(10).permutation(80)
    cost = Cost(x[order], x, metric, storage=storage)
    coupling = Sinkhorn(reg=5e-4, tol=1e-6).solve(cost)
    np.testing.assert_array_equal(coupling.summary(k=1).top_indices[:, 0], order)
    assert coupling.transport_cost <= 1e-3 * cost.scale
    shifted = Sinkhorn(reg=2e-4, tol=1e-6).solve(Cost(x, x + np.float32([0.02, 0]), "l2"))
    assert shifted.transport_cost == pytest.approx(0.02, rel=0.02)


@pytest.mark.parametrize("reg", [10.0, 0.1, 0.01, 1e-3, 1e-4])
def test_every_regularisation_reaches_every_tolerance(reg):
    for n, m, tol in ((90, 70, 1e-3), (70, 150, 1e-7)):
        coupling = Sinkhorn(reg=reg, tol=tol).solve(problem(n, m, seed=12), weights(n, seed=13), weights(m, seed=14))
        assert coupling.converged
        assert marginal_error(coupling.to_dense(), coupling.source_weights, coupling.target_weights) <= tol


# Weights of which few have nearly all mass, by their number and a generator.
HARD_WEIGHTS = {
    "a few elements": lambda n, random: random.dirichlet(np.full(n, 0.01)),
    "15 decades": lambda n, random: 10 ** -random.uniform(0, 15, n),
    "many zeros": lambda n, random: np.where(np.arange(n) % 5 == 0, random.uniform(size=n), 0.0),
    "decades and zeros": lambda n, random: np.where(np.arange(n) % 2 == 0, 10 ** -random.uniform(0, 15, n), 0.0),
    "three elements": lambda n, random: np.where(np.arange(n) < 3, 1.0, 1e-12),
    "uniform": lambda n, random: np.ones(n),
}


def very_unequal(kind: str, n: int, seed: int):
    values = HARD_WEIGHTS[kind](n, np.random.default_rng(seed))
    return values / values.sum()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", HARD_WEIGHTS)
@pytest.mark.parametrize(("reg", "n", "m", "tol"), [(1e-6, 40, 25, 1e-8), (1e-5, 700, 500, 1e-4)])
def test_very_unequal_weights_take_no_more_than_some_hundred_passes(kind, reg, n, m, tol):
    """They took 10,000, because an error that is small in all says nothing of elements with little mass."""
    p, q, cost = very_unequal(kind, n, seed=30), very_unequal(kind, m, seed=31), problem(n, m, seed=32)
    coupling = Sinkhorn(reg=reg, tol=tol).solve(cost, p, q)
    assert coupling.iterations <= 500
    assert marginal_error(coupling.to_dense(), p, q) <= tol
    if n == 40:
        assert coupling.transport_cost == pytest.approx(ExactTransport().solve(cost, p, q).transport_cost, rel=1e-3)


@pytest.mark.parametrize("max_iter", [1, 20, 125])
def test_the_limit_of_iterations_is_kept_on_every_way(max_iter):
    p, q = very_unequal("15 decades", 700, seed=38), very_unequal("many zeros", 500, seed=39)
    with pytest.warns(NotConvergedWarning, match=r"marginal error.*after \d+ iterations.*1\.0e-18") as caught:
        coupling = Sinkhorn(reg=2e-3, tol=1e-18, max_iter=max_iter).solve(problem(700, 500), p, q)
    assert caught[0].filename == __file__
    assert coupling.iterations <= max_iter
    assert coupling.reg == 2e-3
    assert not coupling.converged
    assert "NOT converged" in repr(coupling)
    assert np.isfinite(coupling.to_dense()).all()


@pytest.mark.parametrize(("reg", "seed"), [(0.1, 0), (0.01, 2), (1e-3, 0)])
def test_tied_costs_and_repeated_points_converge(reg, seed):
    """Points of a coarse grid: masses differ by whole points, and plain steps change nothing for a long time."""
    generator = np.random.default_rng(seed)
    source, target = generator.integers(0, 3, (80, 2)), generator.integers(0, 3, (70, 2))
    coupling = Sinkhorn(reg=reg, tol=1e-6, max_iter=1000).solve(Cost(source, target, "l1"))
    assert coupling.converged
    plan = coupling.to_dense()
    first, second = ((x[:, None] == x).all(axis=2).argmax(axis=1) for x in (source, target))
    np.testing.assert_allclose(plan, plan[first], rtol=1e-5, atol=1e-12)  # equal points, equal plans
    np.testing.assert_allclose(plan, plan[:, second], rtol=1e-2, atol=1e-7)


@settings(max_examples=60, derandomize=True)  # about one in 15,000 needs more iterations
@given(data=st.data())
def test_any_small_problem_is_solved(data):
    n, m = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    entries = data.draw(st.lists(st.integers(0, 20), min_size=n * m, max_size=n * m))
    cost = Cost.from_matrix(np.array(entries, float).reshape(n, m))
    masses = [np.array(data.draw(st.lists(st.integers(0, 5), min_size=k, max_size=k).filter(any))) for k in (n, m)]
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


@pytest.mark.parametrize("reg", [0.05, 1e-3])
def test_history_and_progress_follow_the_iterations_and_the_numbers_are_the_same_again(reg, monkeypatch):
    calls, cost, found = [], problem(), []
    for threads in ("1", "5"):
        monkeypatch.setenv("BISPECTRAL_OT_THREADS", threads)
        with runtime.running(progress=lambda *call: calls.append(call)):
            found.append(Sinkhorn(reg=reg, tol=1e-6).solve(cost))
    coupling = found[0]
    regs, errors = zip(*coupling.history, strict=True)
    assert len(coupling.history) == coupling.iterations > 0
    assert list(regs) == sorted(regs, reverse=True)
    assert regs[-1] == reg
    assert errors[-1] <= 1e-6
    calls = [call for call in calls if call[0] == "transport"]
    assert {total for _, _, total in calls} == {1000}
    assert calls[-1][1] == 1000
    np.testing.assert_array_equal(found[0].target_potential, found[1].target_potential)
    assert found[0].history == found[1].history


@pytest.mark.parametrize("reg", [0.1, 1e-3])
def test_swapped_sides_transpose_the_plan_and_units_and_offsets_do_not_matter(reg):
    matrix, p, q = problem().block(0, 60).astype(np.float64), weights(60, seed=19), weights(45, seed=20)
    solver = Sinkhorn(reg=reg, tol=1e-9)
    expected = solver.solve(matrix, p, q)
    for changed, scale in ((1e6 * matrix, None), (matrix + 1000 * matrix.max(), matrix.max())):
        found = solver.solve(Cost.from_matrix(changed, scale=scale), p, q)
        np.testing.assert_allclose(found.to_dense(), expected.to_dense(), rtol=1e-5, atol=1e-9)
    transposed = solver.solve(np.ascontiguousarray(matrix.T), q, p).to_dense().T
    np.testing.assert_allclose(transposed, expected.to_dense(), rtol=1e-5, atol=1e-9)
    half = Sinkhorn(reg=reg / 2, tol=1e-9).solve(Cost.from_matrix(matrix, scale=2 * matrix.max()), p, q)
    np.testing.assert_allclose(half.to_dense(), expected.to_dense(), rtol=1e-5, atol=1e-9)
    assert half.epsilon == pytest.approx(expected.epsilon)


def literal_potential(cost, w, epsilon, tau):
    """``a = -tau epsilon log(sum_j w_j exp((a_j - C_ij) / epsilon))`` by averaged steps in float64."""
    a = np.zeros(len(w))
    for _ in range(2000):
        a = (a - tau * epsilon * logsumexp((a - cost) / epsilon, b=w, axis=1)) / 2
    return a


@pytest.mark.parametrize(("reg", "lam", "zeros"), [(0.2, None, 0), (0.01, None, 5), (0.01, 0.05, 5), (0.2, 30.0, 0)])
def test_the_potential_is_that_of_the_literal_iteration(reg, lam, zeros):
    x, w = points(50), weights(50, zeros=zeros)
    cost = Cost(x, x, "sqeuclidean")
    coupling = Sinkhorn(reg=reg, tol=1e-9, unbalanced=lam).solve(cost, w, symmetric=True)
    tau = 1.0 if lam is None else lam / (lam + reg)
    expected, kept = literal_potential(cost.block(0, 50).astype(np.float64), w, coupling.epsilon, tau), w > 0
    found = coupling.target_potential[kept] - coupling.epsilon * np.log(w[kept])
    np.testing.assert_allclose(found, expected[kept], atol=1e-6 * cost.scale)
    np.testing.assert_array_equal(coupling.source_potential, coupling.target_potential)
    assert coupling.converged
    assert np.isneginf(coupling.target_potential[~kept]).all()


def test_options_and_arguments_that_mean_nothing_are_refused_and_an_interrupt_ends_the_solve():
    for name, values in {"reg": (0, float("nan"), "small"), "tol": (-1e-3,), "max_iter": (0, 0.5)}.items():
        for value in values:
            with pytest.raises(InputError, match=name):
                Sinkhorn(**{name: value})
    for solver, cost in ((Sinkhorn(), [[0.0, 1.0]]), (Sinkhorn(unbalanced=(None, 0.1)), [[0.0]])):
        with pytest.raises(InputError, match="square cost and the same penalty"):
            solver.solve(cost, symmetric=True)

    def interrupt(stage, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), runtime.running(progress=interrupt):
        Sinkhorn().solve(problem())
