"""A folder of image files: one sub-folder per class, or flat and without labels."""

from __future__ import annotations

import os
import unicodedata
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.image_file import SUFFIXES, read_image
from bispectral_ot.datasets.resize import Size, resize_images
from bispectral_ot.engines import Block, Threads, row_blocks
from bispectral_ot.errors import DatasetError, DataWarning
from bispectral_ot.memory import check_fits
from bispectral_ot.progress import Progress, silent


def read_folder(folder: Path, *, size: Size | None = None, progress: Progress = silent) -> Dataset:
    """Read all images of ``folder``: ``<class>/<image>`` with labels, or ``<image>`` without.

    Files come in sorted order, class by class. Hidden files and files that are not PNG, JPEG, TIFF or BMP are
    ignored. Where some images are grey and some in colour, all become colour; where some have 8 and some 16
    bits, all become 16-bit. Transparent pixels are black as far as they are transparent.
    """
    classes, paths, labels = _list_images(folder)
    one = _read_sized(paths[0], size).nbytes
    check_fits(len(paths) * one, f"{folder} with {len(paths):,} images", "make them smaller with resize=... (--resize)")
    blocks = row_blocks(len(paths), block_rows=32)
    parts = Threads().map(
        _read_images, blocks, rows=(paths,), shared=(size,), stage=f"read {folder.name}", progress=progress
    )
    images: list[NDArray[Any]] = [image for part in parts for image in part]
    _refuse_different_sizes(images, paths, folder)
    return Dataset(
        np.stack(_to_one_kind(images, paths)),
        np.array(labels) if classes else None,
        name=_text(folder.resolve().name),
        classes=tuple(classes),
        files=tuple(_text(path.relative_to(folder).as_posix()) for path in paths),
    )


def _read_images(block: Block, paths: list[Path], size: Size | None) -> list[NDArray[Any]]:
    return [_read_sized(path, size) for path in paths]


def _read_sized(path: Path, size: Size | None) -> NDArray[Any]:
    image = read_image(path)
    return image if size is None else resize_images(image[None], size)[0]


def _list_images(folder: Path) -> tuple[list[str], list[Path], list[int]]:
    """Class names, image files, and the class index of each file; no classes for a flat folder."""
    flat = _image_files(folder)
    sub_folders = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    by_class = {sub: _image_files(sub) for sub in sub_folders}
    filled = {sub: files for sub, files in by_class.items() if files}
    if flat and filled:
        raise DatasetError(
            f"{folder} has {len(flat)} images next to {len(filled)} sub-folders with images; "
            "put every image into the sub-folder of its class, or all into one folder without labels."
        )
    if flat:
        return [], flat, [0] * len(flat)
    if not filled:
        raise DatasetError(_nothing_found(folder, sub_folders))
    if len(filled) < len(by_class):
        empty = [sub.name for sub, files in by_class.items() if not files]
        warnings.warn(
            f"{folder}: {len(empty)} sub-folders have no images and were left out: {', '.join(empty[:5])}",
            DataWarning,
            stacklevel=2,
        )
    paths = [path for files in filled.values() for path in files]
    labels = [index for index, files in enumerate(filled.values()) for _ in files]
    return [_text(sub.name) for sub in filled], paths, labels


def _image_files(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
    )


def _nothing_found(folder: Path, sub_folders: list[Path]) -> str:
    message = f"{folder} has no images ({', '.join(SUFFIXES)}), neither directly nor one folder down."
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


def _to_one_kind(images: list[NDArray[Any]], paths: list[Path]) -> list[NDArray[Any]]:
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
    if any(image.ndim == 3 for image in images):
        images = [image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2) for image in images]
    return images


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} x {shape[1]} (height x width)"


def _text(name: str) -> str:
    """The name read as UTF-8, whatever the locale, and accented letters in one spelling, whatever the disk has."""
    return unicodedata.normalize("NFC", os.fsencode(name).decode("utf-8", "surrogateescape"))
