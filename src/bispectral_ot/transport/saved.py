"""The state of a solve in a file, so that a solve that was cut off goes on where it was."""

from __future__ import annotations

import json
import time
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bispectral_ot.costs import Cost
from bispectral_ot.errors import InputError
from bispectral_ot.files import whole_file
from bispectral_ot.transport.coupling import Vector

# Seconds between two writes.
EVERY = 10.0
# Relative differences of the cost that come from rounding on other machines.
_ROUNDING = 1e-4


class Potentials(NamedTuple):
    """Where a solve stood: potentials in the units of the cost, at a regularisation on the way to the final one."""

    reg: float
    f: Vector
    g: Vector


@dataclass
class SavedSolve:
    """Writes the potentials of a solve to a file now and then, and reads them back.

    Attributes
    ----------
    path : of the file, an ``.npz``; it appears whole, and is removed when the solve has ended
    problem : what was solved for; a file of another problem is refused
    """

    path: Path
    problem: dict[str, Any]
    _last: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, path: str | Path, cost: Cost, solver: Any, weights: tuple[Vector, Vector]) -> SavedSolve:
        """The file of one problem."""
        checksum = zlib.crc32(weights[1].tobytes(), zlib.crc32(weights[0].tobytes()))
        problem = {"cost": [*cost.shape, cost.metric], "solver": repr(solver), "weights": checksum}
        return cls(Path(path), problem | {"scale": cost.scale})

    def read(self) -> Potentials | None:
        """What an earlier solve of this problem has left; None where there is nothing."""
        try:
            with np.load(self.path) as saved:
                theirs = json.loads(str(saved["problem"]))
                found = Potentials(float(saved["reg"]), saved["f"], saved["g"])
        except FileNotFoundError:
            return None
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise InputError(
                f"{self.path} is not the state of a solve ({error}); remove it, or name another."
            ) from None
        scale = self.problem["scale"]
        if {**theirs, "scale": scale} != self.problem or abs(theirs["scale"] - scale) > _ROUNDING * scale:
            raise InputError(
                f"{self.path} is the state of another solve: {theirs}, not {self.problem}. Remove it, or name another."
            )
        return found

    def write(self, reg: float, f: Vector, g: Vector) -> None:
        """Keep the potentials, unless that was done a moment ago."""
        if time.monotonic() - self._last < EVERY:
            return
        with whole_file(self.path) as partial, open(partial, "wb") as file:
            np.savez(file, problem=json.dumps(self.problem), reg=reg, f=f, g=g)
        self._last = time.monotonic()

    def remove(self) -> None:
        """Remove the file of a solve that has ended."""
        self.path.unlink(missing_ok=True)
