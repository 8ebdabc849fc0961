"""Parts of the benchmarks: search for the fewest iterations, peers, tables, literal features."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.end_to_end import growth_exponent
from benchmarks.literal import folded, literal_features
from benchmarks.peers import PEERS, Peer, Problem, marginal_error
from benchmarks.search import Trial, cheapest
from benchmarks.tables import Table
from benchmarks.timing import missing
from bispectral_ot.features import RingBispectrum


def solver(error: Callable[[int], float], *, pace: float = 1e-3) -> tuple[Callable[[int], Trial], list[int]]:
    """A pretended solver with a given error after k iterations, and the list of runs it was asked for."""
    asked: list[int] = []

    def run(iterations: int) -> Trial:
        asked.append(iterations)
        return Trial(iterations, pace * iterations, error(iterations))

    return run, asked


@pytest.mark.parametrize("rate", [0.5, 0.99])
def test_finds_nearly_the_fewest_iterations(rate: float):
    run, asked = solver(lambda k: rate**k / (1 + k))
    needed = next(k for k in range(1, 10_000) if rate**k / (1 + k) <= 1e-4)
    outcome = cheapest(run, tol=1e-4, time_box=100, first=2)
    assert outcome.result == "reached"
    assert needed <= outcome.trial.iterations <= 1.15 * needed + 1
    assert sum(asked) < 6 * needed + 20


def test_gives_up_without_leaving_the_time_box():
    run, asked = solver(lambda k: 1 / k, pace=1.0)
    outcome = cheapest(run, tol=1e-6, time_box=100)
    assert outcome.result == "not within 100 s"
    assert max(asked) <= 100


def test_tells_breakdown_and_stalling_apart():
    run, _ = solver(lambda k: math.nan)
    assert cheapest(run, tol=1e-6, time_box=100).result == "breaks down (NaN)"
    run, _ = solver(lambda k: max(0.5**k, 2e-5))
    assert cheapest(run, tol=1e-6, time_box=100).result == "stalls at 2e-05"


def test_an_error_that_falls_in_jumps_is_not_called_stalled():
    run, _ = solver(lambda k: 2.0 if k <= 40 else 0.9**k)
    assert cheapest(run, tol=1e-6, time_box=100).result == "reached"


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


def test_markdown_has_aligned_columns_and_readable_numbers():
    rows = [
        {"method": "ours", "n": 30_000, "seconds": 0.01234, "error": 2.5e-7, "ratio": 1.0},
        {"method": "theirs", "n": 30_000, "seconds": 1234.5, "error": None, "ratio": 1234.5},
    ]
    table = Table("Title", "A note.", ["method", "n", "seconds", "error", "ratio"], rows, ["x (not installed)"])
    assert table.markdown().splitlines() == [
        "**Title**",
        "",
        "A note.",
        "",
        "| method | n | seconds | error | ratio |",
        "|---|---:|---:|---:|---:|",
        "| ours | 30,000 | 0.0123 | 2.5e-07 | 1.00x |",
        "| theirs | 30,000 | 1,234 | – | 1,234x |",
        "",
        "Skipped: x (not installed).",
    ]


def test_growth_exponent_ignores_times_of_pure_overhead():
    points = [(1000, 0.05), (2000, 0.4), (4000, 1.6), (8000, 6.4)]
    assert np.isclose(growth_exponent(points), 2.0)
    assert growth_exponent(points[:2]) is None


def test_columns_are_literal_features():
    images = np.random.default_rng(0).normal(size=(3, 12, 10)).astype(np.float32)
    ring = RingBispectrum(sampling="nearest").fit(images)
    assert np.allclose(folded(ring, literal_features(images)), ring.transform(images), atol=1e-6)
