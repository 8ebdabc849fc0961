"""Forward and backward pass of the PyTorch loss, in time and memory.

The divergence between turned digits and others, on the CPU, by this package, by GeomLoss (tensorized; measured where it
is installed) and by automatic differentiation through the iterations, on the same features. Each method runs in a
process of its own, whose peak memory above that of the features counts. Each gets settings from loose to tight, and
the first whose value is within 1e-3 of the exact one counts.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.setting import Setting
from benchmarks.tables import Table
from benchmarks.timing import missing
from bispectral_ot.datasets import Dataset, load, rotate_randomly

_REG, _ERROR = 0.05, 1e-3  # relative to the mean cost between reference images, and to the exact value
_SETTINGS: dict[str, tuple[float, ...]] = {
    "bispectral-ot": (1e-2, 1e-3, 1e-4),  # marginal error
    "GeomLoss, tensorized": (0.5, 0.9, 0.98),  # scaling
    "through the iterations": (50, 200),  # iterations
}


def measure(setting: Setting) -> Iterator[Table]:
    """All methods at all sizes."""
    rows: list[dict[str, Any]] = []
    for n in () if missing(["torch"]) else setting.sizes.batches:
        exact = _child("bispectral-ot", n, 1e-6)["value"]
        for method, settings in _SETTINGS.items():
            for each in settings if not (method.startswith("GeomLoss") and missing(["geomloss"])) else ():
                found = _child(method, n, each)
                error = abs(found.pop("value") / exact - 1)
                if error <= _ERROR or each == settings[-1]:
                    rows.append({"images": f"{n:,} + {n:,}", "transport": method, **found, "error of the value": error})
                    break
    note = "Forward and backward pass; memory is the peak above that of the features, libraries included."
    columns = ["images", "transport", "features (s)", "transport (s)", "memory (MB)", "error of the value"]
    yield Table("Loss in PyTorch", note, columns, rows)


def _child(method: str, n: int, setting: float) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.torch_loss", method, str(n), str(setting)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def measure_one(method: str, n: int, setting: float) -> dict[str, float]:
    """Seconds of both passes of features and transport, peak memory above that of the features, and the value."""
    import torch

    from bispectral_ot.torch import BispectralLoss

    digits = load("mnist-5k")
    chosen = np.random.default_rng(0).permutation(len(digits))[: 2 * n]
    images = np.asarray(digits.images, dtype=np.float32)[chosen] / 255
    source, target = torch.tensor(rotate_randomly(Dataset(images[:n]), seed=0).images), torch.tensor(images[n:])
    loss = BispectralLoss().fit(target)
    assert loss.invariant is not None
    seconds, value, idle = [], 0.0, 0
    for _ in range(2):
        leaf = source.float().requires_grad_()
        start = time.perf_counter()
        rows, y = (loss._weighted(each) for each in (leaf, target.float()))
        rows.sum().backward()
        features = time.perf_counter() - start
        x, y = rows.detach().requires_grad_(), y.detach()
        del rows
        idle = idle or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        found = METHODS[method](x, y, _REG * loss.scale, setting)
        found.backward()
        seconds.append((features, time.perf_counter() - start))
        value = float(found.detach()) / loss.scale
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    features, transport = min(seconds, key=sum)
    return {
        "features (s)": features,
        "transport (s)": transport,
        "memory (MB)": (peak - idle) / 1024,
        "value": value,
    }


def ours(x: Any, y: Any, reg: float, tol: float) -> Any:
    """Potentials without a graph, one differentiable evaluation."""
    from bispectral_ot.torch import sinkhorn_divergence

    return sinkhorn_divergence(x, y, reg=reg, tol=tol)


def geomloss(x: Any, y: Any, reg: float, scaling: float) -> Any:
    """GeomLoss: its cost is half of the squared distance, and blur is the root of the regularisation."""
    from geomloss import SamplesLoss

    loss = SamplesLoss("sinkhorn", p=2, blur=reg**0.5, scaling=scaling, debias=True, backend="tensorized")
    return loss(2**0.5 * x, 2**0.5 * y)


def through_the_iterations(x: Any, y: Any, reg: float, iterations: float) -> Any:
    """Sinkhorn's iterations as they are, all of them in the graph."""
    import torch

    def term(first: Any, second: Any) -> Any:
        cost = torch.cdist(first, second).square() / reg
        f, g = cost.new_zeros(len(first)), cost.new_zeros(len(second))
        for _ in range(int(iterations)):
            f = -torch.logsumexp(g - cost, dim=1) + np.log(len(second))
            g = -torch.logsumexp(f[:, None] - cost, dim=0) + np.log(len(first))
        return reg * (f.mean() + g.mean())

    return term(x, y) - term(x, x) / 2 - term(y, y) / 2


METHODS: dict[str, Callable[[Any, Any, float, float], Any]] = dict(
    zip(_SETTINGS, (ours, geomloss, through_the_iterations), strict=True)
)

if __name__ == "__main__":
    print(json.dumps(measure_one(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
