"""Match and compare two datasets up to a symmetry.

Each image is mapped to its bispectrum, a Fourier invariant that removes a group action and keeps the rest;
optimal transport between the invariants then pairs the two sets by content.

>>> import bispectral_ot as bot
>>> digits = bot.load("digits")
>>> a, b = bot.split_halves(digits, seed=0)
>>> a = bot.rotate_randomly(a, seed=0)
>>> match = bot.match(a, b, symmetry="rotation")
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
    NotConvergedError,
    NotConvergedWarning,
    RunExistsError,
)

if TYPE_CHECKING:
    from bispectral_ot.costs import AlignedCost, Cost
    from bispectral_ot.datasets import (
        Dataset,
        center,
        load,
        normalize,
        rotate,
        rotate_randomly,
        split_halves,
        synthetic_shapes,
    )
    from bispectral_ot.groups import (
        CyclicGroup,
        DihedralGroup,
        FiniteGroup,
        OctahedralGroup,
        ProductGroup,
        SymmetricGroup,
    )
    from bispectral_ot.invariants import (
        CoupledBispectrum,
        CyclicBispectrum,
        DihedralImageBispectrum,
        GroupBispectrum,
        GroupPowerSpectrum,
        Pixels,
        PolarSpectrum,
        RingBispectrum,
        RingPowerSpectrum,
        ShellBispectrum,
        SphereBispectrum,
        TranslationBispectrum,
        project_to_sphere,
    )
    from bispectral_ot.matching import ClassPreservation, Match, class_preservation, match
    from bispectral_ot.transport import Coupling, ExactTransport, Greenkhorn, Sinkhorn

# Rooms load when something of theirs is first asked for: `import bispectral_ot` stays fast.
_ROOMS = {
    "costs": ("AlignedCost", "Cost"),
    "datasets": (
        "Dataset",
        "center",
        "load",
        "normalize",
        "rotate",
        "rotate_randomly",
        "split_halves",
        "synthetic_shapes",
    ),
    "groups": ("CyclicGroup", "DihedralGroup", "FiniteGroup", "OctahedralGroup", "ProductGroup", "SymmetricGroup"),
    "invariants": (
        "CoupledBispectrum",
        "CyclicBispectrum",
        "DihedralImageBispectrum",
        "GroupBispectrum",
        "GroupPowerSpectrum",
        "Pixels",
        "PolarSpectrum",
        "RingBispectrum",
        "RingPowerSpectrum",
        "ShellBispectrum",
        "SphereBispectrum",
        "TranslationBispectrum",
        "project_to_sphere",
    ),
    "matching": ("ClassPreservation", "Match", "class_preservation", "match"),
    "transport": ("Coupling", "ExactTransport", "Greenkhorn", "Sinkhorn"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "AlignedCost",
    "ClassPreservation",
    "Cost",
    "CoupledBispectrum",
    "Coupling",
    "CyclicBispectrum",
    "CyclicGroup",
    "DataWarning",
    "Dataset",
    "DatasetError",
    "DihedralGroup",
    "DihedralImageBispectrum",
    "ExactTransport",
    "FiniteGroup",
    "Greenkhorn",
    "GroupBispectrum",
    "GroupPowerSpectrum",
    "InputError",
    "Match",
    "MemoryBudgetError",
    "NotConvergedError",
    "NotConvergedWarning",
    "OctahedralGroup",
    "Pixels",
    "PolarSpectrum",
    "ProductGroup",
    "RingBispectrum",
    "RingPowerSpectrum",
    "RunExistsError",
    "ShellBispectrum",
    "Sinkhorn",
    "SphereBispectrum",
    "SymmetricGroup",
    "TranslationBispectrum",
    "__version__",
    "center",
    "class_preservation",
    "load",
    "match",
    "normalize",
    "project_to_sphere",
    "rotate",
    "rotate_randomly",
    "split_halves",
    "synthetic_shapes",
]


def __getattr__(name: str) -> Any:
    if name not in _ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_ROOM_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
