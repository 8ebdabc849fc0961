"""The sets that have a name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bispectral_ot.cache import cache_folder
from bispectral_ot.checks import user_path
from bispectral_ot.datasets.bundled import BUNDLED
from bispectral_ot.datasets.local import find_pair
from bispectral_ot.datasets.official import OFFICIAL

VARIABLE = "BISPECTRAL_OT_DATA"


@dataclass(frozen=True)
class NamedSet:
    """What is known of a named set before it is loaded."""

    name: str
    title: str
    counts: dict[str, int]
    size: tuple[int, int]
    classes: tuple[str, ...]
    source: str


def available() -> list[NamedSet]:
    """All sets that :func:`load` knows by name, with their facts."""
    official = [NamedSet(s.name, s.title, dict(s.counts), (28, 28), s.classes, s.source) for s in OFFICIAL.values()]
    bundled = [
        NamedSet(s.name, s.title, {"train": s.count}, s.size, s.classes, f"comes with {s.package}")
        for s in BUNDLED.values()
    ]
    return official + bundled


def named_folder(root: str | os.PathLike[str] | None = None) -> Path | None:
    """The folder that ``root`` or else the variable ``BISPECTRAL_OT_DATA`` names."""
    named = root if root is not None else os.environ.get(VARIABLE)
    return user_path(named) if named else None


def place(name: str) -> str:
    """Where the training split of a named set would be taken from now, in words."""
    if name in BUNDLED:
        return BUNDLED[name].package
    official, folder = OFFICIAL[name], named_folder()
    if folder is not None and find_pair(official, folder, "train"):
        return "local folder"
    if find_pair(official, cache_folder(official.name).parent, "train"):
        return "cache"
    return "to fetch"
