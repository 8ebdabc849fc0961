"""One machine, a million sources: ``python -m benchmarks.million --sources 1000000 --targets 50000``.

Sources are MNIST and Fashion-MNIST training images, each turned by several random angles; only the angles are kept, and
images are made as their features are. Features have 128 principal components and are in a memory map, the cost is
computed again on every pass, marginals are relaxed, and labels and the five best targets of every source go to a file.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.streamed import write_matches
from bispectral_ot import runtime
from bispectral_ot.costs import Cost, FeatureDistance
from bispectral_ot.costs.cost import encode
from bispectral_ot.datasets import Dataset, load
from bispectral_ot.datasets.transforms import rotate
from bispectral_ot.engines import core_count, one_blas_thread
from bispectral_ot.features import FittedFeatures, choose_features
from bispectral_ot.files import write_json
from bispectral_ot.matching.result import Stages
from bispectral_ot.memory import peak_memory, reserved_memory_map
from bispectral_ot.runs import run_record
from bispectral_ot.transport import Sinkhorn

_COMPONENTS, _BATCH, _SAMPLE = 128, 2048, 4096


def measure(n: int, m: int, *, out: Path, reg: float = 0.01, tol: float = 1e-4, seed: int = 0) -> dict[str, Any]:
    """Match n turned images with m upright ones; returns seconds, rates, memory and accuracy."""
    random = np.random.default_rng(seed)
    sets = [load(name) for name in ("mnist", "fashion-mnist")]
    images = np.concatenate([each.images for each in sets])
    names = np.concatenate([[f"{each.name} {each.classes[i]}" for i in each.labels] for each in sets])  # type: ignore[union-attr]
    chosen, angles = random.integers(len(images), size=n), random.uniform(0, 360, size=n)
    at = random.permutation(len(images))[:m]
    stages = Stages()
    memory: dict[str, int] = {}
    used: dict[str, float] = {}

    def turned(part: slice) -> Any:
        return rotate(images[chosen[part]], angles[part]).images

    with stages.measured("features"), _cpu_measured("features", used):
        few = turned(slice(0, min(n, _SAMPLE)))
        choice = choose_features("global-bispectrum")
        space = FittedFeatures([Dataset(few), Dataset(images[at])], choice, pca=_COMPONENTS)
        features = reserved_memory_map((n, _COMPONENTS), folder=out)
        for start in range(0, n, _BATCH):
            part = slice(start, min(start + _BATCH, n))
            features[part] = space.feature_map(turned(part))
            _say("features", part.stop, n)
    memory["features"] = peak_memory()
    with stages.measured("cost"), _cpu_measured("cost", used), runtime.running(progress=_say):
        cost = Cost(features, space.features[1], "sqeuclidean", storage="recompute")
    with stages.measured("transport"), _cpu_measured("transport", used), runtime.running(progress=_say):
        coupling = Sinkhorn(reg=reg, tol=tol, unbalanced=(None, 0.5 * reg)).solve(cost)
    with stages.measured("write"), _cpu_measured("write", used), runtime.running(progress=_say):
        write_matches(coupling, out / "matches.parquet", k=5, target_labels=names[at])
    memory["all"] = peak_memory()
    # a measurement in float64 follows the passes in float32: both are passes over all pairs
    passes = coupling.iterations + 1
    # of the cores' own time: on a machine that others use, too, the clock on the wall says little
    rate = core_count() * passes * n * m * _COMPONENTS / used["transport"]
    kernels = kernel_rates(features, space.features[1])
    limit = 1 / (_COMPONENTS / kernels["products"] + 1 / kernels["exponentials"])
    return {
        "sources": n,
        "targets": m,
        "seconds": stages.seconds,
        "cpu_seconds": used,
        "passes": passes,
        "seconds_per_pass": stages.seconds["transport"] / passes,
        "products_per_second": rate,
        "kernels": kernels,
        "share_of_limit": rate / _COMPONENTS / limit,
        "converged": coupling.converged,
        "marginal_error": coupling.marginal_error,
        "peak_memory": memory,
        "accuracy": _accuracy(out / "matches.parquet", names[chosen]),
        "load": os.getloadavg()[0],
    }


@contextmanager
def _cpu_measured(stage: str, used: dict[str, float]) -> Iterator[None]:
    start = time.process_time()
    yield
    used[stage] = time.process_time() - start


def kernel_rates(source: Any, target: Any) -> dict[str, float]:
    """Multiply-adds and exponentials a second on all cores: those of one core, by its own clock, times the cores."""
    from bispectral_ot.costs import cost_kernels

    rows = np.array(source[:256])
    distance = FeatureDistance(rows, target, "sqeuclidean")
    encoded = encode(distance.rows(0, len(rows)), "float32")
    g, weights = np.zeros(len(target), dtype=np.float32), np.ones(len(rows))
    unit = 100 / float(encoded.codes.max())
    f, _ = cost_kernels.sweep(encoded, np.zeros(len(rows)), weights, unit, g, 1.0)
    out = np.empty((len(rows), len(target)), dtype=np.float32)
    with one_blas_thread():
        products = _least(lambda: np.matmul(rows, target.T, out=out))
    exponentials = _least(lambda: cost_kernels.sweep(encoded, f, weights, unit, g, 1.0))
    cores = core_count()
    return {"products": cores * out.size * rows.shape[1] / products, "exponentials": cores * out.size / exponentials}


def _least(work: Any) -> float:
    times = []
    for _ in range(5):
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
    return min(times)


def _accuracy(path: Path, names: Any) -> float:
    import pyarrow.parquet as pq

    labels = pq.read_table(path, columns=["label"])["label"].to_numpy()
    return float((labels == names).mean())


_last = 0.0


def _say(stage: str, done: int, total: int) -> None:
    global _last
    if time.monotonic() - _last > 20:
        _last = time.monotonic()
        print(f"{time.strftime('%H:%M:%S')} {stage} {done / total:.1%}", flush=True)


def main() -> None:
    """Run it, and write ``million.json``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.million", description=__doc__)
    parser.add_argument("--sources", type=int, default=1_000_000)
    parser.add_argument("--targets", type=int, default=50_000)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--out", type=Path, default=Path("runs/million"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    found = measure(asked.sources, asked.targets, out=asked.out, tol=asked.tol)
    record = run_record(vars(asked), seconds=time.perf_counter() - start)
    write_json(asked.out / "million.json", record | {"result": found})
    print(found)


if __name__ == "__main__":
    main()
