"""A folder of image files: one sub-folder per class, or flat and without labels."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bispectral_ot.datasets.image_file import SUFFIXES, ImageInfo, decode_image, image_header
from bispectral_ot.datasets.resize import Canvas
from bispectral_ot.datasets.sources import FileSource, LazyDataset
from bispectral_ot.errors import DatasetError, DataWarning, warn

# What a sub-folder may be called that holds a part of a set.
_SPLIT_FOLDERS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}


def scan_folder(
    folder: Path,
    suffixes: tuple[str, ...] = SUFFIXES,
    header: Callable[[Path, str], ImageInfo] = image_header,
    decode: Callable[[Path, str, Canvas], tuple[NDArray[Any], bool]] = decode_image,
) -> LazyDataset:
    """All images of ``folder``: ``<class>/<image>`` with labels, or ``<image>`` without.

    Files come in sorted order, class by class. Hidden files and files with other suffixes are ignored.
    """
    classes, paths, labels = list_files(folder, suffixes, "images")
    names = tuple(as_text(path.relative_to(folder).as_posix()) for path in paths)
    source = FileSource(paths, names, str(folder), header, decode)
    return LazyDataset(source, as_text(folder.resolve().name), labels if classes else None, tuple(classes), names)


def split_folders(folder: Path) -> dict[str, Path]:
    """The folder of each split, where a folder has nothing but ``train``, ``val`` and ``test`` folders, else {}."""
    found = {_SPLIT_FOLDERS.get(sub.name.lower(), ""): sub for sub in _sub_folders(folder)}
    return {} if "" in found else found


def list_files(folder: Path, suffixes: tuple[str, ...], noun: str) -> tuple[list[str], list[Path], list[int]]:
    """Class names, files with one of the suffixes, and the class index of each; no classes for a flat folder."""
    flat = _files_in(folder, suffixes)
    sub_folders = _sub_folders(folder)
    by_class = {sub: _files_in(sub, suffixes) for sub in sub_folders}
    filled = {sub: files for sub, files in by_class.items() if files}
    if flat and filled:
        raise DatasetError(
            f"{folder} has {len(flat)} {noun} next to {len(filled)} sub-folders with {noun}; "
            "put every file into the sub-folder of its class, or all into one folder without labels."
        )
    if flat:
        return [], flat, [0] * len(flat)
    if not filled:
        raise DatasetError(_nothing_found(folder, sub_folders, suffixes, noun))
    if len(filled) < len(by_class):
        empty = [sub.name for sub, files in by_class.items() if not files]
        warn(
            f"{folder}: {len(empty)} sub-folders have no {noun} and were left out: {', '.join(empty[:5])}", DataWarning
        )
    paths = [path for files in filled.values() for path in files]
    labels = [index for index, files in enumerate(filled.values()) for _ in files]
    return [as_text(sub.name) for sub in filled], paths, labels


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


def _nothing_found(folder: Path, sub_folders: list[Path], suffixes: tuple[str, ...], noun: str) -> str:
    message = f"{folder} has no {noun} ({', '.join(suffixes)}), neither directly nor one folder down."
    deeper = next((sub for sub in sub_folders if any(path.is_dir() for path in sub.iterdir())), None)
    return f"{message} Name the folder that holds the classes: {deeper} ?" if deeper else message


def as_text(name: str) -> str:
    """The name read as UTF-8, whatever the locale, and accented letters in one spelling, whatever the disk has."""
    return unicodedata.normalize("NFC", os.fsencode(name).decode("utf-8", "surrogateescape"))
