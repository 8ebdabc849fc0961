"""Match and compare two datasets up to a symmetry.

Each image is mapped to its bispectrum, a Fourier invariant that removes a group action and keeps the rest;
optimal transport between the invariants then pairs the two sets by content.

>>> import bispectral_ot as bot
>>> digits = bot.load("digits")
>>> source, target = bot.split_halves(digits, seed=0)
>>> source = bot.rotate_randomly(source, seed=0)
>>> match = bot.match(source, target, symmetry="rotation")
>>> match.converged
True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bispectral_ot._version import __version__
from bispectral_ot.errors import (
    DatasetError,
    DataWarning,
    InputError,
    MemoryBudgetError,
    NotConvergedWarning,
    RunExistsError,
)

if TYPE_CHECKING:
    from bispectral_ot.costs import Cost
    from bispectral_ot.datasets import Dataset, center, load, normalize, rotate_randomly, split_halves
    from bispectral_ot.invariants import CoupledBispectrum, CyclicBispectrum, RingBispectrum, TranslationBispectrum
    from bispectral_ot.matching import Match, class_preservation, match
    from bispectral_ot.transport import ExactTransport, Sinkhorn

# Rooms load when something of theirs is first asked for: `import bispectral_ot` stays fast.
_ROOMS = {
    "costs": ("Cost",),
    "datasets": ("Dataset", "center", "load", "normalize", "rotate_randomly", "split_halves"),
    "invariants": ("CoupledBispectrum", "CyclicBispectrum", "RingBispectrum", "TranslationBispectrum"),
    "matching": ("Match", "class_preservation", "match"),
    "transport": ("ExactTransport", "Sinkhorn"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "Cost",
    "CoupledBispectrum",
    "CyclicBispectrum",
    "DataWarning",
    "Dataset",
    "DatasetError",
    "ExactTransport",
    "InputError",
    "Match",
    "MemoryBudgetError",
    "NotConvergedWarning",
    "RingBispectrum",
    "RunExistsError",
    "Sinkhorn",
    "TranslationBispectrum",
    "__version__",
    "center",
    "class_preservation",
    "load",
    "match",
    "normalize",
    "rotate_randomly",
    "split_halves",
]


def __getattr__(name: str) -> Any:
    if name not in _ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_ROOM_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
