"""Debiased divergences against POT and GeomLoss: ``python -m benchmarks.divergences --images 4000``.

Features are principal components of MNIST images, one side turned. Each method gets settings from loose to tight, and
the first whose value is within the error asked for counts; methods take turns. GeomLoss is measured where it is
installed (``pip install geomloss torch``).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bispectral_ot.comparing.divergence import solve_potentials
from bispectral_ot.costs import Cost
from bispectral_ot.datasets import Dataset, load, rotate_randomly
from bispectral_ot.features import FittedFeatures, choose_features
from bispectral_ot.files import write_json
from bispectral_ot.runs import run_record

_COMPONENTS, _REPEATS = 64, 2
Solve = Callable[[], float]


def ours(x: Any, y: Any, scale: float, reg: float, tol: float) -> float:
    """Three costs and three solves, as a comparison of two sets has them."""
    own = (Cost(each, each, "sqeuclidean", scale=scale) for each in (x, y))
    first, last = (solve_potentials(cost, reg, tol=tol, within=True).value for cost in own)
    return solve_potentials(Cost(x, y, "sqeuclidean", scale=scale), reg, tol=tol).value - first / 2 - last / 2


def pot(x: Any, y: Any, scale: float, reg: float, tol: float) -> float:
    """POT's debiased problem, on the same cost."""
    import ot

    return float(ot.solve_sample(x, y, reg=reg * scale, debias=True, tol=tol, max_iter=20_000).value)


def geomloss(x: Any, y: Any, scale: float, reg: float, scaling: float) -> float:
    """GeomLoss: its cost is half of the squared distance, and blur is the root of the regularisation."""
    import torch
    from geomloss import SamplesLoss

    loss = SamplesLoss("sinkhorn", p=2, blur=(reg * scale) ** 0.5, scaling=scaling, debias=True, backend="tensorized")
    sides = [torch.from_numpy(np.ascontiguousarray(np.sqrt(2) * each)) for each in (x, y)]
    return float(loss(*sides))


def methods(x: Any, y: Any, scale: float, reg: float) -> Iterator[tuple[str, list[tuple[float, Solve]]]]:
    """Names, and for each setting a solve."""
    doubles = x.astype(np.float64), y.astype(np.float64)
    yield "bispectral-ot", [(tol, partial(ours, x, y, scale, reg, tol)) for tol in (1e-3, 1e-4, 1e-5, 1e-6)]
    yield "POT", [(tol, partial(pot, *doubles, scale, reg, tol)) for tol in (1e-3, 1e-5, 1e-7, 1e-9)]
    try:
        import geomloss as _  # noqa: F401
    except ImportError:
        return
    scalings = (0.5, 0.9, 0.95, 0.99)
    yield "GeomLoss", [(scaling, partial(geomloss, *doubles, scale, reg, scaling)) for scaling in scalings]


def measure(n: int, *, reg: float, error: float) -> dict[str, Any]:
    """Seconds and errors of each method's fastest setting that is exact enough."""
    images = load("mnist").images[: 2 * n]
    sides = [Dataset(images[:n]), rotate_randomly(Dataset(images[n:]), seed=0)]
    space = FittedFeatures(sides, choose_features("global-bispectrum"), pca=_COMPONENTS)
    x, y = (np.array(each) for each in space.features)
    scale = float(((x[:500, None] - x[:500]) ** 2).sum(axis=2).max())
    exact = ours(x, y, scale, reg, 1e-11)
    found: dict[str, Any] = {"images": n, "reg": reg, "error": error, "value": exact}
    chosen: dict[str, Solve] = {}
    for name, settings in methods(x, y, scale, reg):
        for setting, solve in settings:
            value = solve()
            found[name] = {"setting": setting, "relative_error": abs(value / exact - 1)}
            chosen[name] = solve
            if found[name]["relative_error"] <= error:
                break
    times: dict[str, list[float]] = {name: [] for name in chosen}
    for _ in range(_REPEATS):
        for name, solve in chosen.items():
            start = time.perf_counter()
            solve()
            times[name].append(time.perf_counter() - start)
    for name, seconds in times.items():
        found[name] |= {"seconds": min(seconds), "reached": found[name]["relative_error"] <= error}
    return found


def main() -> None:
    """Run it, and write ``divergences.json``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.divergences", description=__doc__)
    parser.add_argument("--images", type=int, nargs="+", default=[500, 4000])
    parser.add_argument("--reg", type=float, default=0.13)
    parser.add_argument("--error", type=float, default=1e-4)
    parser.add_argument("--out", type=Path, default=Path("runs/divergences"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    rows = []
    for n in asked.images:
        rows.append(measure(n, reg=asked.reg, error=asked.error))
        print(rows[-1], flush=True)
    record = run_record({**vars(asked), "out": asked.out.name}, seconds=time.perf_counter() - start)
    write_json(asked.out / "divergences.json", record | {"rows": rows})


if __name__ == "__main__":
    main()
