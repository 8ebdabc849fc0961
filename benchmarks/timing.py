"""Timing on a machine that is never quite quiet."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

Result = TypeVar("Result")


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    """Seconds that one call takes, and what it returns."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def median_seconds(
    works: Mapping[str, Callable[[], Result]],
    *,
    repeats: int,
    check: Callable[[str, Result], None] = lambda name, result: None,
) -> dict[str, float]:
    """Median seconds of each, measured in rounds of one call each: a slow minute of the machine hits all alike.

    ``check(name, result)`` sees what each call returned, outside the timing.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            taken, result = timed(work)
            seconds[name].append(taken)
            check(name, result)
    return {name: statistics.median(values) for name, values in seconds.items()}


def best_seconds(work: Callable[[], object], *, repeats: int) -> float:
    """The shortest of some calls: what the machine can do when nothing disturbs it."""
    return min(timed(work)[0] for _ in range(repeats))


def missing(packages: Iterable[str]) -> list[str]:
    """Those of the packages that are not installed."""
    return [name for name in packages if importlib.util.find_spec(name) is None]
