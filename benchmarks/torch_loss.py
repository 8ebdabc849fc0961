"""Forward and backward pass of the PyTorch loss: ``python -m benchmarks.torch_loss --images 256 2048``.

The loss between turned digits and others, on the CPU, against the same divergence of the same features by GeomLoss
(tensorized; measured where it is installed) and by automatic differentiation through the iterations. Each method runs
in a process of its own, whose peak memory above that of the features counts. Each gets settings from loose to tight,
and the first whose value is within ``--error`` of the exact one counts.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bispectral_ot.datasets import Dataset, load, rotate_randomly
from bispectral_ot.files import write_json
from bispectral_ot.runs import run_record
from bispectral_ot.torch import BispectralLoss, sinkhorn_divergence

_REG = 0.05  # relative to the mean cost between reference images
_SETTINGS: dict[str, tuple[float, ...]] = {
    "ours": (1e-2, 1e-3, 1e-4),  # marginal error
    "geomloss": (0.5, 0.9, 0.98),  # scaling
    "through the iterations": (50, 200),  # iterations
}


def ours(x: Tensor, y: Tensor, reg: float, tol: float) -> Tensor:
    """Potentials without a graph, one differentiable evaluation."""
    return sinkhorn_divergence(x, y, reg=reg, tol=tol)


def geomloss(x: Tensor, y: Tensor, reg: float, scaling: float) -> Tensor:
    """GeomLoss: its cost is half of the squared distance, and blur is the root of the regularisation."""
    from geomloss import SamplesLoss

    loss = SamplesLoss("sinkhorn", p=2, blur=reg**0.5, scaling=scaling, debias=True, backend="tensorized")
    return loss(2**0.5 * x, 2**0.5 * y)


def through_the_iterations(x: Tensor, y: Tensor, reg: float, iterations: float) -> Tensor:
    """Sinkhorn's iterations as they are, all of them in the graph."""

    def term(first: Tensor, second: Tensor) -> Tensor:
        cost = torch.cdist(first, second).square() / reg
        f, g = cost.new_zeros(len(first)), cost.new_zeros(len(second))
        for _ in range(int(iterations)):
            f = -torch.logsumexp(g - cost, dim=1) + np.log(len(second))
            g = -torch.logsumexp(f[:, None] - cost, dim=0) + np.log(len(first))
        return reg * (f.mean() + g.mean())

    return term(x, y) - term(x, x) / 2 - term(y, y) / 2


METHODS: dict[str, Callable[[Tensor, Tensor, float, float], Tensor]] = {
    "ours": ours,
    "geomloss": geomloss,
    "through the iterations": through_the_iterations,
}


def measure(method: str, n: int, setting: float) -> dict[str, float]:
    """Seconds of both passes of features and transport, peak memory above that of the features, and the value."""
    digits = load("mnist-5k")
    chosen = np.random.default_rng(0).permutation(len(digits))[: 2 * n]
    images = np.asarray(digits.images, dtype=np.float32)[chosen] / 255
    source, target = torch.tensor(rotate_randomly(Dataset(images[:n]), seed=0).images), torch.tensor(images[n:])
    loss = BispectralLoss().fit(target)
    invariant, reg = loss.invariant, _REG * loss.scale
    assert invariant is not None
    seconds, value, idle = [], 0.0, 0
    for _ in range(2):
        leaf = source.float().requires_grad_()
        start = time.perf_counter()
        rows, y = (BispectralLoss._weighted(invariant, each) for each in (leaf, target.float()))
        rows.sum().backward()
        features = time.perf_counter() - start
        x, y = rows.detach().requires_grad_(), y.detach()
        del rows
        idle = idle or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        found = METHODS[method](x, y, reg, setting)
        found.backward()
        seconds.append((features, time.perf_counter() - start))
        value = float(found.detach()) / loss.scale
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    features, transport = min(seconds, key=sum)
    return {"features_s": features, "transport_s": transport, "memory_mb": (peak - idle) / 1024, "value": value}


def main() -> None:
    """Measure all methods at all sizes, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, nargs="+", default=[256, 2048], help="images of each side")
    parser.add_argument("--error", type=float, default=1e-3, help="relative error of the value")
    parser.add_argument("--one", nargs=3, metavar=("METHOD", "N", "SETTING"), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks/torch-loss.json"))
    asked = parser.parse_args()
    if asked.one:
        method, n, setting = asked.one
        print(json.dumps(measure(method, int(n), float(setting))))
        return
    start, rows = time.perf_counter(), []
    for n in asked.images:
        exact = _child("ours", n, 1e-6)["value"]
        for method, settings in _SETTINGS.items():
            for setting in settings:
                row: dict[str, Any] = {"method": method, "images": n, "setting": setting}
                try:
                    row |= _child(method, n, setting)
                except subprocess.CalledProcessError as error:
                    print(f"{method}, {n}: {error.stderr.strip().splitlines()[-1]}")
                    break
                row["error"] = abs(row["value"] / exact - 1)
                if row["error"] <= asked.error or setting == settings[-1]:
                    rows.append(row)
                    print(row, flush=True)
                    break
    write_json(asked.out, run_record({"benchmark": "torch-loss"}, seconds=time.perf_counter() - start) | {"rows": rows})


def _child(method: str, n: int, setting: float) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.torch_loss", "--one", method, str(n), str(setting)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
