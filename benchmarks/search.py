"""The fewest iterations with which a solver reaches an error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

# Longer and longer runs without a better error before a solver counts as stalled; some errors fall in jumps.
_PATIENCE = 3


@dataclass(frozen=True)
class Trial:
    """One run: how many iterations, how long, and the error measured afterwards."""

    iterations: int
    seconds: float
    error: float


@dataclass(frozen=True)
class Outcome:
    """How a search ended: ``reached``, or why not; with the cheapest run that reached it, or the best one."""

    result: str
    trial: Trial


def cheapest(
    run: Callable[[int], Trial], *, tol: float, time_box: float, first: int = 2, refinements: int = 2
) -> Outcome:
    """Look for the cheapest run with an error of at most ``tol``.

    Errors of Sinkhorn's iteration fall geometrically at best, so the last two runs tell the least number of iterations
    that can be enough. The search goes there, in steps of at most a factor of four, and gives up where that would
    take longer than ``time_box``.

    Parameters
    ----------
    run
        Runs a number of iterations afresh.
    tol
        Error to reach.
    time_box
        Seconds that one run may take.
    first
        Iterations to begin with.
    refinements
        Runs to spend on fewer iterations once the error is reached.
    """
    short: Trial | None = None  # the best run so far that was too short
    last: Trial | None = None
    vain = 0
    trial = run(first)
    while not trial.error <= tol:
        if not math.isfinite(trial.error):
            return Outcome("breaks down (NaN)", trial)
        least = 4.0 * trial.iterations
        if short is not None and trial.error > 0.98 * short.error:
            vain += 1
            if vain == _PATIENCE:
                return Outcome(f"stalls at {short.error:.1g}", short)
        else:
            vain = 0
            if short is not None:
                least = _iterations_for(tol, short, trial)
            short = trial
        if _expected_seconds(least, last, trial) > time_box:
            return Outcome(f"not within {time_box:g} s", short)
        last = trial
        trial = run(math.ceil(min(max(1.03 * least, 1.1 * trial.iterations), 4 * trial.iterations)))
    for _ in range(refinements):
        if short is None or trial.seconds > time_box / 4:
            break
        guess = math.ceil(_iterations_for(tol, short, trial))
        if not short.iterations < guess < 0.95 * trial.iterations:
            break
        shorter = run(guess)
        if shorter.error <= tol:
            trial = shorter
        else:
            short = shorter
    return Outcome("reached", trial)


def _iterations_for(tol: float, one: Trial, other: Trial) -> float:
    """Where the straight line through the logarithms of two errors meets ``tol``."""
    rate = math.log(one.error / max(other.error, 1e-300)) / (other.iterations - one.iterations)
    return one.iterations + math.log(one.error / tol) / rate


def _expected_seconds(iterations: float, last: Trial | None, trial: Trial) -> float:
    """Time for so many iterations, by what the latest ones took: the setup of a solver must not count as their pace."""
    if last is None:
        return trial.seconds
    pace = max(0.0, (trial.seconds - last.seconds) / (trial.iterations - last.iterations))
    return trial.seconds + pace * (iterations - trial.iterations)
