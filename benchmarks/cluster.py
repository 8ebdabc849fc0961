"""Workers against threads: ``python -m benchmarks.cluster --sizes 10000 20000 --workers 1 2``.

Passes over the same cost in turns, by the threads of this process and by single-thread workers of a cluster on this
machine: seconds, bytes, the distance that both solve for, what a killed worker costs, and what a model of the time is.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from distributed.versions import get_versions

from benchmarks.million import kernel_rates
from benchmarks.timing import timed
from bispectral_ot.costs import Cost, FeatureDistance
from bispectral_ot.engines import Engine, Threads, core_count
from bispectral_ot.engines.cluster import Dask, connected
from bispectral_ot.files import write_json
from bispectral_ot.runs import run_record
from bispectral_ot.transport import Sinkhorn

_COLUMNS, _REG = 128, 0.02
# Rows of a cost that takes no time: its pass shows what a round takes whatever its size.
_SMALL = 200
# Up to this size both solve to the end, so that their distances can be compared.
_SOLVED = 20_000


class Passes:
    """Passes over one cost on one engine, each from where the one before ended."""

    def __init__(self, n: int, engine: Engine, storage: Any, *, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        source, target = (random.normal(size=(n, _COLUMNS)).astype(np.float32) for _ in range(2))
        self.making, self.cost = timed(
            lambda: Cost.from_distance(FeatureDistance(source, target, "sqeuclidean"), engine=engine, storage=storage)
        )
        self.f, self.g, self.weights = np.zeros(n), np.zeros(n), np.full(n, 1 / n)
        self.unit = 1 / (np.log(2) * _REG * self.cost.scale)
        self.seconds: list[float] = []
        self.cpu: list[float] = []
        self.bytes: list[int] = []

    def step(self) -> None:
        """One pass, measured."""
        start, used, carried = time.perf_counter(), _cpu_seconds(), _loopback_bytes()
        self.f, sums = self.cost.sweep(self.f, self.g, self.weights, unit=self.unit, dtype=np.float32)
        self.seconds.append(time.perf_counter() - start)
        self.cpu.append(_cpu_seconds() - used)
        self.bytes.append(_loopback_bytes() - carried)
        self.g = self.g + np.log2(self.weights / sums)

    def median(self, values: list[Any]) -> float:
        """Without the first pass, which may load code."""
        return float(statistics.median(values[1:]))


def measure(n: int, engine: Dask, workers: int, *, storage: Any, repeats: int, kill: bool = False) -> dict[str, Any]:
    """Passes of threads and of the engine's workers in turns; with ``kill``, one more after a worker was killed."""
    engine.client.wait_for_workers(workers, timeout=120)
    threads = Threads()
    with threads_of_this_process(workers):
        here, there = Passes(n, threads, storage), Passes(n, engine, storage)
        for _ in range(repeats + 1):
            here.step()
            there.step()
        vectors = workers * (4 + 8) * n  # potentials out in float32, sums back in float64
        found: dict[str, Any] = {
            "n": n,
            "workers": workers,
            "storage": storage,
            "making_seconds": {"threads": here.making, "workers": there.making},
            "seconds_a_pass": {"threads": here.median(here.seconds), "workers": there.median(there.seconds)},
            "cpu_seconds_a_pass": {"threads": here.median(here.cpu), "workers": there.median(there.cpu)},
            # of pairs of passes that follow each other: a slow moment of the machine hits both
            "speed": statistics.median(a / b for a, b in zip(here.seconds[1:], there.seconds[1:], strict=True)),
            "cpu_speed": here.median(here.cpu) / there.median(there.cpu),
            "loopback_bytes_a_pass": there.median(there.bytes),
            "loopback_over_vectors": there.median(there.bytes) / vectors,
            "potentials_differ": float(np.abs(there.g - here.g).max() / np.abs(here.g).max()),
        }
        if n <= _SOLVED:
            one, other = (Sinkhorn(reg=_REG, tol=1e-7).solve(each.cost).transport_cost for each in (here, there))
            found["distance_differs"] = abs(other - one) / one
        if kill:
            found["after_a_killed_worker"] = killed(there, engine)
    return found


def killed(passes: Passes, engine: Dask) -> dict[str, float]:
    """Seconds of a pass right after a worker was killed, and what it took to make all blocks before."""
    process = next(iter(engine.client.run(os.getpid).values()))
    os.kill(process, signal.SIGKILL)
    passes.step()
    return {"seconds": passes.seconds[-1], "making_all_blocks": passes.making}


def model(found: dict[str, Any], *, round_seconds: float, rates: dict[str, float]) -> float:
    """Seconds of a pass by docs/scale.md, from what a round takes and what one core computes in a second."""
    pairs = found["n"] ** 2 / found["workers"]
    if found["storage"] == "recompute":
        return float(pairs * (1 / rates["exponentials"] + _COLUMNS / rates["products"]) + round_seconds)
    return float(pairs / rates["stored"] + round_seconds)


@contextmanager
def threads_of_this_process(count: int) -> Iterator[None]:
    """As many threads as there are workers."""
    before = os.environ.get("BISPECTRAL_OT_THREADS")
    os.environ["BISPECTRAL_OT_THREADS"] = str(count)
    try:
        yield
    finally:
        del os.environ["BISPECTRAL_OT_THREADS"]
        if before is not None:
            os.environ["BISPECTRAL_OT_THREADS"] = before


def _cpu_seconds() -> float:
    """CPU seconds of this process and of the workers, which are its children."""
    import psutil  # type: ignore[import-untyped]

    me = psutil.Process()
    return float(sum(sum(each.cpu_times()[:2]) for each in [me, *me.children(recursive=True)]))


def _loopback_bytes() -> int:
    """What the loopback interface has carried so far: everything that goes through the scheduler counts twice."""
    import psutil

    interfaces = psutil.net_io_counters(pernic=True)
    return int(next((count.bytes_recv for name, count in interfaces.items() if name in ("lo", "lo0")), 0))


def main() -> None:
    """Run it, and write ``cluster.json``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 20_000])
    parser.add_argument("--recomputed", type=int, nargs="*", default=[], help="sizes whose cost is not stored")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path("runs/cluster"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    start, load, results = time.perf_counter(), os.getloadavg()[0], []
    sample = np.random.default_rng(0).normal(size=(20_000, _COLUMNS)).astype(np.float32)
    rates = {name: rate / core_count() for name, rate in kernel_rates(sample, sample).items()}
    for workers in asked.workers:
        with connected(f"local:{workers}") as engine:
            assert engine is not None
            small = measure(_SMALL, engine, workers, storage="float32", repeats=asked.repeats)
            latency = small["seconds_a_pass"]["workers"]
            for n, storage in [(n, "float32") for n in asked.sizes] + [(n, "recompute") for n in asked.recomputed]:
                repeats = max(2, min(asked.repeats, int(4e10 / n**2)))  # long passes are measured less often
                found = measure(n, engine, workers, storage=storage, repeats=repeats, kill=workers > 1)
                # a stored cost comes from memory, which all cores share: the rate is that of threads at the first size
                rates.setdefault("stored", n**2 / workers / found["seconds_a_pass"]["threads"])
                found |= {"round_seconds": latency, "model_seconds": model(found, round_seconds=latency, rates=rates)}
                results.append(found)
                print(found, flush=True)
    config = {name: value for name, value in vars(asked).items() if name != "out"}
    config |= {"load": load, "versions": get_versions(["numba", "scipy", "bispectral-ot"])["packages"]}
    record = run_record(config, seconds=time.perf_counter() - start)
    write_json(asked.out / "cluster.json", record | {"rates_of_a_core": rates, "results": results})


if __name__ == "__main__":
    main()
