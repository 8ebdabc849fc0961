"""Folders of files: one sub-folder per class, or flat and without labels."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bispectral_ot.datasets.image_file import SUFFIXES
from bispectral_ot.datasets.sources import FileSource, LazyDataset
from bispectral_ot.errors import DatasetError, DataWarning, warn

# Names of sub-folders that hold a part of a set.
_SPLIT_FOLDERS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}


def scan_folder(
    folder: Path,
    suffixes: tuple[str, ...] = SUFFIXES,
    get: Callable[[Path], Any] | None = None,
    noun: str = "images",
) -> LazyDataset:
    """All files of ``folder``: ``<class>/<file>`` with labels, or ``<file>`` without.

    They come in sorted order, class by class. Hidden files and files with other suffixes are ignored.
    """
    flat = _files_in(folder, suffixes)
    by_class = {sub: _files_in(sub, suffixes) for sub in _sub_folders(folder)}
    filled = {sub: files for sub, files in by_class.items() if files}
    if flat and filled:
        raise DatasetError(
            f"{folder} has {len(flat)} {noun} next to {len(filled)} sub-folders with {noun}; "
            "put every file into the sub-folder of its class, or all into one folder without labels."
        )
    if not flat and not filled:
        deeper = next((sub for sub in by_class if any(path.is_dir() for path in sub.iterdir())), None)
        raise DatasetError(
            f"{folder} has no {noun} ({', '.join(suffixes)}), neither directly nor one folder down."
            + (f" Name the folder that holds the classes: {deeper} ?" if deeper else "")
        )
    empty = [sub.name for sub, files in by_class.items() if not files]
    if filled and empty:
        warn(
            f"{folder}: {len(empty)} sub-folders have no {noun} and were left out: {', '.join(empty[:5])}", DataWarning
        )
    paths = flat or [path for files in filled.values() for path in files]
    labels = [index for index, files in enumerate(filled.values()) for _ in files] if filled else None
    names = tuple(_as_text(path.relative_to(folder).as_posix()) for path in paths)
    classes = tuple(_as_text(sub.name) for sub in filled)
    source = FileSource(paths, names, str(folder), get)
    return LazyDataset(source, _as_text(folder.resolve().name), labels, classes, names)


def split_folders(folder: Path) -> dict[str, Path]:
    """The folder of each split, where a folder has nothing but ``train``, ``val`` and ``test`` folders, else {}."""
    found = {_SPLIT_FOLDERS.get(sub.name.lower(), ""): sub for sub in _sub_folders(folder)}
    return {} if "" in found else found


def has_files(folder: Path, suffixes: tuple[str, ...]) -> bool:
    """Whether there are such files in the folder or one folder down."""
    return any(_files_in(place, suffixes) for place in (folder, *_sub_folders(folder)))


def _sub_folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _files_in(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix.lower() in suffixes and not path.name.startswith(".") and path.is_file()
    )


def _as_text(name: str) -> str:
    """The name read as UTF-8, whatever the locale, and accented letters in one spelling, whatever the disk has."""
    return unicodedata.normalize("NFC", os.fsencode(name).decode("utf-8", "surrogateescape"))
