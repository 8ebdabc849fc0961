"""State of a solve in a file, from which an interrupted solve is resumed."""

from __future__ import annotations

import time
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bispectral_ot.costs import Cost
from bispectral_ot.errors import InputError
from bispectral_ot.files import whole_file
from bispectral_ot.store import content_hash
from bispectral_ot.transport.coupling import Vector

# Seconds between two writes.
EVERY = 10.0
# Relative differences of the scale of a cost that come from rounding on other machines.
_ROUNDING = 1e-4


class Potentials(NamedTuple):
    """Potentials in the units of the cost after some iterations, at a regularisation on the way to the final one."""

    reg: float
    iteration: int
    f: Vector
    g: Vector


class SavedSolve:
    """File with the potentials of one problem, written now and then and removed at the end of the solve."""

    def __init__(self, path: str | Path, cost: Cost, solver: Any, weights: tuple[Vector, Vector]) -> None:
        self.path, self._shape, self._scale = Path(path), cost.shape, cost.scale
        self._problem = content_hash(list(cost.shape), cost.metric, repr(solver), *weights)
        self._last = time.monotonic()

    def read(self) -> Potentials | None:
        """Potentials of an interrupted solve of this problem; None where there is no file."""
        try:
            with np.load(self.path, allow_pickle=False) as saved:
                problem, scale = str(saved["problem"]), float(saved["scale"])
                found = Potentials(float(saved["reg"]), int(saved["iteration"]), saved["f"], saved["g"])
        except FileNotFoundError:
            return None
        except (OSError, KeyError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise InputError(
                f"{self.path} is not the state of a solve ({error}); remove it, or name another."
            ) from None
        if problem != self._problem or not abs(scale - self._scale) <= _ROUNDING * self._scale:
            raise InputError(
                f"{self.path} is the state of another solve: sets, weights, metric or solver differ; remove it or name "
                "another."
            )
        if (found.f.shape, found.g.shape) != tuple((n,) for n in self._shape) or np.isnan([*found.f, *found.g]).any():
            raise InputError(f"{self.path} has no potentials for a cost of shape {self._shape}; remove it.")
        return found

    def write(self, reg: float, iteration: int, f: Vector, g: Vector) -> None:
        """Keep the potentials, unless that was done a moment ago."""
        if time.monotonic() - self._last < EVERY:
            return
        with whole_file(self.path) as partial, open(partial, "wb") as file:
            np.savez(file, problem=self._problem, scale=self._scale, reg=reg, iteration=iteration, f=f, g=g)
        self._last = time.monotonic()

    def remove(self) -> None:
        """Remove the file of a solve that has ended."""
        self.path.unlink(missing_ok=True)
