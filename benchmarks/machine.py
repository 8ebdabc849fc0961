"""Share of what the machine could do: the L1 kernel and BLAS against multiply-adds, a solver's pass against memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from benchmarks.setting import Setting
from benchmarks.tables import Table
from benchmarks.timing import best_seconds
from bispectral_ot.costs import Cost, Storage
from bispectral_ot.engines import core_count

_CHAIN = 8  # multiply-adds on a number between its load and its store
_LANES = 128  # numbers in flight on a core: enough to hide the latency, few enough for the registers
_COLUMNS = 4_018  # of folded features of 28 x 28 images


@njit(nogil=True, cache=True, fastmath={"contract"})
def _chains(x, factor, summand):  # type: ignore[no-untyped-def]
    """A function of its own, because it vectorises that way and not as the inner of two loops."""
    for j in range(x.shape[0]):
        value = x[j]
        value = value * factor + summand
        value = value * factor + summand
        value = value * factor + summand
        value = value * factor + summand
        value = value * factor + summand
        value = value * factor + summand
        value = value * factor + summand
        value = value * factor + summand
        x[j] = value


@njit(nogil=True, cache=True)
def _multiply_add(x: NDArray[np.float32], factor: np.float32, summand: np.float32, rounds: int) -> None:
    for _ in range(rounds):
        _chains(x, factor, summand)


@njit(nogil=True, cache=True, fastmath=True)
def _sum(x: NDArray[np.float32]) -> np.float32:
    total = np.float32(0)
    for value in x:
        total += value
    return total


def measure(setting: Setting) -> Iterator[Table]:
    """Rates of the machine and of our kernels, the best of some short runs each."""
    repeats = 4 * setting.sizes.repeats
    n = setting.sizes.pass_size
    peak = multiply_add_rate(repeats=5 * repeats)
    blas = _blas_rate(size=min(n, 3_000), repeats=repeats)
    l1 = _l1_rate(rows=min(n, 768), repeats=repeats)
    bandwidth = read_rate(megabytes=max(64, 4 * n * n // 2**20), repeats=repeats)
    rows: list[dict[str, Any]] = [
        {"what": "multiply-adds in registers", "rate": peak, "unit": "G FMA/s", "limit": "-"},
        {"what": "BLAS float32 product", "rate": blas, "unit": "G FMA/s", "limit": "FMA", "share": blas / peak},
        {"what": "L1 kernel", "rate": l1, "unit": "G terms/s", "limit": "FMA", "share": l1 / peak},
        {"what": "reading memory", "rate": bandwidth, "unit": "GB/s", "limit": "-"},
    ]
    storages: tuple[Storage, ...] = ("float32", "compact")
    for storage in storages:
        seconds, gigabytes = _pass_seconds(n, storage, repeats=setting.sizes.repeats)
        rate = gigabytes / seconds
        what = f"solver pass, {storage} cost"
        rows.append({"what": what, "rate": rate, "unit": "GB/s", "limit": "memory", "share": rate / bandwidth})
        rows.append({"what": what, "rate": n * n / seconds / 1e9, "unit": "G exp/s", "limit": "-"})
    note = (
        f"{core_count()} cores; the best of {repeats} or more short runs each. A term of the L1 distance takes a "
        "subtraction, an absolute value and a multiply-add. A solver pass takes an exponential for each entry of a "
        f"{n:,} x {n:,} cost and reads it once, 4 or 2 bytes an entry."
    )
    yield Table("Share of the machine's limit", note, ["what", "rate", "unit", "limit", "share"], rows)


def multiply_add_rate(*, repeats: int) -> float:
    """G multiply-adds a second of all cores together, from numbers that stay in registers."""
    rounds = 1_000_000

    def work(core: int) -> None:
        x = np.zeros(_LANES, dtype=np.float32)
        _multiply_add(x, np.float32(0.5), np.float32(0.25), rounds)

    seconds = _on_all_cores(work, repeats=repeats)
    return core_count() * rounds * _LANES * _CHAIN / seconds / 1e9


def read_rate(*, megabytes: int, repeats: int) -> float:
    """GB a second that all cores together can read from an array of this size."""
    x = np.ones((core_count(), megabytes * 2**20 // 4 // core_count()), dtype=np.float32)
    return x.nbytes / _on_all_cores(lambda core: _sum(x[core]), repeats=repeats) / 1e9


def _on_all_cores(work: Callable[[int], Any], *, repeats: int) -> float:
    with ThreadPoolExecutor(core_count()) as pool:  # started once: the work itself is short

        def on_all() -> None:
            list(pool.map(work, range(core_count())))

        on_all()  # compiled code is loaded
        return best_seconds(on_all, repeats=repeats)


def _blas_rate(*, size: int, repeats: int) -> float:
    x = np.random.default_rng(0).random((size, size), dtype=np.float32)
    return size**3 / best_seconds(lambda: x @ x, repeats=repeats) / 1e9


def _l1_rate(*, rows: int, repeats: int) -> float:
    x = np.random.default_rng(0).random((rows, _COLUMNS), dtype=np.float32)
    seconds = best_seconds(lambda: Cost(x, x, "l1", storage="float32"), repeats=repeats)
    return rows * rows * _COLUMNS / seconds / 1e9


def _pass_seconds(n: int, storage: Storage, *, repeats: int) -> tuple[float, float]:
    """Seconds of one pass in float32, and the gigabytes it reads."""
    x = np.random.default_rng(0).random((n, 16), dtype=np.float32)
    cost = Cost(x, x[::-1].copy(), "l2", storage=storage)
    weights, unit = np.full(n, 1 / n), 1 / (0.01 * cost.scale * np.log(2))
    f, _ = cost.sweep(np.zeros(n), np.zeros(n), weights, unit=unit)
    seconds = best_seconds(lambda: cost.sweep(f, np.zeros(n), weights, unit=unit, dtype=np.float32), repeats=repeats)
    return seconds, n * n * (4 if storage == "float32" else 2) / 1e9
