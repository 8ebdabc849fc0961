"""Exact transport, and what all solvers have in common."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment, linprog

from bispectral_ot.errors import InputError, NotConvergedWarning
from bispectral_ot.transport import ExactTransport, Sinkhorn
from bispectral_ot.transport.marginals import as_weights
from transport_problems import marginal_error, problem, weights


@pytest.mark.parametrize(("n", "metric"), [(1, "l2"), (17, "cosine"), (80, "l2")])
def test_on_equal_masses_it_is_the_best_assignment(n, metric):
    cost = problem(n, n, metric=metric)
    matrix = cost.block(0, n).astype(np.float64)
    rows, columns = linear_sum_assignment(matrix)
    coupling = ExactTransport().solve(cost)
    np.testing.assert_array_equal(coupling.summary(k=1).top_indices[rows, 0], columns)
    np.testing.assert_allclose(coupling.plan.toarray()[rows, columns], 1 / n)
    assert coupling.transport_cost == pytest.approx(matrix[rows, columns].mean(), rel=1e-6, abs=1e-9)
    assert coupling.entropy == pytest.approx(np.log(n), abs=1e-9)
    assert coupling.converged


def test_on_other_masses_it_is_the_linear_programme():
    cost, p, q = problem(7, 5), weights(7, seed=1), weights(5, seed=2, zeros=1)
    constraints = np.vstack([np.kron(np.eye(7), np.ones(5)), np.kron(np.ones(7), np.eye(5))])
    best = linprog(cost.block(0, 7).ravel(), A_eq=constraints, b_eq=np.concatenate([p, q]))
    coupling = ExactTransport().solve(cost, p, q)
    assert coupling.transport_cost == pytest.approx(best.fun, rel=1e-6)
    assert coupling.marginal_error <= 1e-9
    assert marginal_error(coupling.to_dense(), p, q) <= 1e-9


def test_a_simplex_that_runs_out_of_steps_says_so():
    """Its plan has the right marginals long before it is the best: that alone does not make it converged."""
    cost = problem(60, 60)
    for max_iter in (1, 150):
        with pytest.warns(NotConvergedWarning, match="allow more iterations") as caught:
            coupling = ExactTransport(max_iter=max_iter).solve(cost)
        assert caught[0].filename == __file__
        assert not coupling.converged
        assert not coupling.optimal
        assert coupling.iterations == max_iter
    assert coupling.marginal_error == 0
    assert coupling.transport_cost > 1.1 * ExactTransport().solve(cost).transport_cost


@pytest.mark.parametrize("size", [1e-300, 1e45])
@pytest.mark.parametrize("solver", [ExactTransport(), Sinkhorn(reg=0.1, tol=1e-9)])
def test_costs_of_any_size_give_the_same_plan(solver, size):
    matrix = problem(12, 9).block(0, 12).astype(np.float64)
    expected, found = solver.solve(matrix), solver.solve(size * matrix)
    np.testing.assert_allclose(found.to_dense(), expected.to_dense(), rtol=1e-6)
    assert found.transport_cost == pytest.approx(size * expected.transport_cost, rel=1e-6, abs=0)
    assert found.converged


def test_one_cost_of_another_size_does_not_hide_the_others():
    """The best pairing of the first three is decided by the tenth digit."""
    matrix = np.full((4, 4), 1e10)
    matrix[:3, :3] = 5.0
    matrix[[0, 1, 2], [1, 2, 0]] = 4.0
    matrix[3, 3] = 0.0
    coupling = ExactTransport().solve(matrix)
    np.testing.assert_array_equal(coupling.summary(k=1).top_indices[:, 0], [1, 2, 0, 3])
    assert coupling.transport_cost == 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([0.5, 0.5], r"has shape \(2,\) but there are 3"),
        ([0.6, 0.6, -0.2], "entry 2 is -0.2"),
        ([0.5, np.nan, 0.5], "entry 1 is nan"),
        ([1.0, 1.0, 1.0], "sums to 3; divide"),
        (["a", "b", "c"], "numbers"),
    ],
)
def test_wrong_weights_are_refused_by_name(given, words):
    with pytest.raises(InputError, match=f"source_weights .*{words}"):
        as_weights(given, 3, "source_weights")
    for solver in (Sinkhorn(), ExactTransport()):
        with pytest.raises(InputError, match="target_weights"):
            solver.solve(problem(5, 3), None, given)
