"""A folder of image files: one sub-folder per class, or flat and without labels."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.grey import to_grey
from bispectral_ot.datasets.image_file import SUFFIXES, read_image_and_alpha
from bispectral_ot.datasets.resize import Size, resize_images
from bispectral_ot.engines import Block, Threads, row_blocks
from bispectral_ot.errors import DatasetError, DataWarning, warn
from bispectral_ot.memory import check_fits
from bispectral_ot.progress import Progress, silent


def read_folder(folder: Path, *, size: Size | None = None, grey: bool = False, progress: Progress = silent) -> Dataset:
    """Read all images of ``folder``: ``<class>/<image>`` with labels, or ``<image>`` without.

    Files come in sorted order, class by class. Hidden files and files that are not PNG, JPEG, TIFF or BMP are
    ignored. Where some images are grey and some in colour, all become colour, or grey with ``grey``; where some have 8
    and some 16 bits, all become 16-bit. Transparent pixels are black as far as they are transparent. A
    :class:`DataWarning` names files that are not like the others.
    """
    classes, paths, labels = list_files(folder, SUFFIXES, "images")
    one = _read_prepared(paths[0], size, grey)[0].nbytes
    check_fits(len(paths) * one, f"{folder} with {len(paths):,} images", "make them smaller with resize=... (--resize)")
    blocks = row_blocks(len(paths), block_rows=32)
    parts = Threads().map(
        _read_images, blocks, rows=(paths,), shared=(size, grey), stage=f"read {folder.name}", progress=progress
    )
    read = [image for part in parts for image in part]
    images: list[NDArray[Any]] = [image for image, _ in read]
    names = [as_text(path.relative_to(folder).as_posix()) for path in paths]
    _refuse_different_sizes(images, paths, folder)
    transparent = [name for name, (_, is_transparent) in zip(names, read, strict=True) if is_transparent]
    if transparent:
        warn(
            f"{folder}: {len(transparent)} of {len(names)} images have transparent pixels ({_some(transparent)}), "
            "which become black; save the images on a background of their own where that is wrong.",
            DataWarning,
        )
    return Dataset(
        np.stack(_to_one_kind(images, paths, names, folder)),
        np.array(labels) if classes else None,
        name=as_text(folder.resolve().name),
        classes=tuple(classes),
        files=tuple(names),
    )


def _read_images(block: Block, paths: list[Path], size: Size | None, grey: bool) -> list[tuple[NDArray[Any], bool]]:
    return [_read_prepared(path, size, grey) for path in paths]


def _read_prepared(path: Path, size: Size | None, grey: bool) -> tuple[NDArray[Any], bool]:
    image, is_transparent = read_image_and_alpha(path)
    if size is not None:
        image = resize_images(image[None], size)[0]
    return to_grey(image[None])[0] if grey else image, is_transparent


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


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


def _refuse_different_sizes(images: list[NDArray[Any]], paths: list[Path], folder: Path) -> None:
    first = images[0].shape[:2]
    for image, path in zip(images, paths, strict=True):
        if image.shape[:2] != first:
            one, other = paths[0].relative_to(folder), path.relative_to(folder)
            raise DatasetError(
                f"the images of {folder} have different sizes: {one} is {_size(first)} but {other} is "
                f"{_size(image.shape)}; bring them to one size with resize={max(first)} "
                f"(on the command line --resize {max(first)}), which keeps the aspect ratio."
            )


def _to_one_kind(images: list[NDArray[Any]], paths: list[Path], names: list[str], folder: Path) -> list[NDArray[Any]]:
    """Give all images the same number of channels and the same type."""
    kinds = {image.dtype: path for image, path in zip(images, paths, strict=True)}
    if np.dtype(np.float32) in kinds and len(kinds) > 1:
        whole = next(dtype for dtype in kinds if dtype != np.float32)
        raise DatasetError(
            f"{kinds[np.dtype(np.float32)]} has floating-point pixels but {kinds[whole]} has {whole} ones, "
            "so their grey values cannot be compared; save all images in one way."
        )
    if len(kinds) > 1:  # white is 255 in the one and 65535 = 255 * 257 in the other
        images = [image.astype(np.uint16) * 257 if image.dtype == np.uint8 else image for image in images]
    grey = [name for name, image in zip(names, images, strict=True) if image.ndim == 2]
    colour = [name for name, image in zip(names, images, strict=True) if image.ndim == 3]
    if grey and colour:
        warn(
            f"{folder}: {len(grey)} images are grey ({_some(grey)}) and {len(colour)} in colour ({_some(colour)}); all "
            "become colour. To compare them in grey, use grey=True (--grey).",
            DataWarning,
        )
        images = [image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2) for image in images]
    return images


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} x {shape[1]} (height x width)"


def as_text(name: str) -> str:
    """The name read as UTF-8, whatever the locale, and accented letters in one spelling, whatever the disk has."""
    return unicodedata.normalize("NFC", os.fsencode(name).decode("utf-8", "surrogateescape"))
