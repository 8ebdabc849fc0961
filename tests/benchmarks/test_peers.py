from __future__ import annotations

import numpy as np
import pytest

from benchmarks.peers import PEERS, Peer, Problem, marginal_error
from benchmarks.timing import missing


@pytest.fixture
def problem() -> Problem:
    cost = np.random.default_rng(0).random((30, 20)).astype(np.float32)
    return Problem(cost / cost.max(), reg=0.1, tol=1e-5)


def test_marginal_error_of_plans_with_a_known_answer(problem: Problem):
    n, m = problem.cost.shape
    plan = np.full((n, m), 1 / (n * m))
    assert marginal_error(problem, plan) == pytest.approx(0, abs=1e-12)
    plan[0] = 0
    assert marginal_error(problem, plan) == pytest.approx(2 / n)
    # potentials that cancel the first row and column of the cost leave a plan of ones there
    flat = Problem(np.zeros((n, m), np.float32), reg=0.5, tol=1e-5)
    potentials = np.full(n, 0.5 * np.log(1 / n)), np.full(m, 0.5 * np.log(1 / m))
    assert marginal_error(flat, potentials) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_peers_solve_the_same_problem(peer: Peer, problem: Problem):
    absent = missing(peer.needs)
    if absent:
        pytest.skip(f"{', '.join(absent)} not installed")
    few, many = (marginal_error(problem, peer.prepare(problem, k)()) for k in (10, 200))
    # GeomLoss spends one iteration on each regularisation of its descent, so its error falls slowly
    assert many < (5e-3 if "GeomLoss" in peer.name else problem.tol)
    assert many <= few
