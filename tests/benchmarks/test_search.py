from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from benchmarks.search import Trial, cheapest


def solver(error: Callable[[int], float], *, pace: float = 1e-3) -> tuple[Callable[[int], Trial], list[int]]:
    """A pretended solver with a given error after k iterations, and the list of runs it was asked for."""
    asked: list[int] = []

    def run(iterations: int) -> Trial:
        asked.append(iterations)
        return Trial(iterations, pace * iterations, error(iterations))

    return run, asked


@pytest.mark.parametrize("rate", [0.5, 0.9, 0.99, 0.999])
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
