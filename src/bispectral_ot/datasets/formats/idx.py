"""IDX, the file format of MNIST: a short big-endian header, then the numbers. Plain or gzipped."""

from __future__ import annotations

import gzip
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.array_names import array_source
from bispectral_ot.datasets.io_errors import reading
from bispectral_ot.datasets.sources import LazyDataset
from bispectral_ot.errors import DatasetError
from bispectral_ot.memory import check_fits

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_SPLIT_MARKS = {"train": ("train",), "val": ("val",), "test": ("t10k", "test")}


def is_idx_name(name: str) -> bool:
    """Whether a file name says IDX: ``train-images-idx3-ubyte``, ``a.idx``, with or without ``.gz``."""
    return re.search(r"[-.]idx\d?(-\w+)?(\.gz)?$", name.lower()) is not None


def read_idx(path: Path) -> NDArray[Any]:
    """Array of an IDX file: two zero bytes, a type, the number of axes, each axis as a 4-byte integer, the values."""
    with reading(path), open(path, "rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        file: Any = gzip.GzipFile(fileobj=plain) if packed else plain
        start = file.read(4)
        if len(start) < 4 or start[:2] != b"\x00\x00" or start[2] not in _TYPES or not 1 <= start[3] <= 4:
            raise DatasetError(f"{path} is not an IDX file: it begins with {start.hex() or 'nothing'}.")
        dtype, sizes = np.dtype(_TYPES[start[2]]), file.read(4 * start[3])
        if len(sizes) < 4 * start[3]:
            raise DatasetError(f"{path} is truncated: its header ends after {4 + len(sizes)} bytes.")
        shape = tuple(int(size) for size in np.frombuffer(sizes, dtype=">u4"))
        expected = math.prod(shape) * dtype.itemsize
        check_fits(expected, str(path), "the file is damaged, or too large for this machine")
        content = file.read(expected + 1)  # no more: a packed file may have no end
        if len(content) != expected:
            found = f"{len(content):,}" if len(content) < expected else "more"
            raise DatasetError(
                f"{path} is truncated or corrupt: its header names {expected:,} bytes of shape {shape}, "
                f"but {found} follow; get the file again."
            )
        return np.frombuffer(content, dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="))


def read_idx_pair(images_path: Path, labels_path: Path | None) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Images and labels; the published EMNIST files (``emnist-...``), whose images are transposed, become upright."""
    images = read_idx(images_path)
    if images.ndim < 3:
        raise DatasetError(f"{images_path} has shape {images.shape}, not images; name the file with the images.")
    if images_path.name.startswith("emnist-"):
        images = np.ascontiguousarray(images.swapaxes(1, 2))
    labels = None if labels_path is None else read_idx(labels_path)
    if labels is not None and labels.shape != (len(images),):
        raise DatasetError(
            f"{labels_path} has labels of shape {labels.shape}, but {images_path} has {len(images)} images; the two "
            "files do not belong together."
        )
    return images, labels


def scan_idx(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """Images of an IDX file, with the labels file (``labels`` for ``images``, ``idx1`` for ``idx3``) beside it."""
    stem = path.name.removesuffix(".gz")
    labels_stem = re.sub(r"idx\d", "idx1", stem.replace("images", "labels"))
    images, labels = read_idx_pair(
        path, find_plain_or_packed(path.parent, labels_stem) if labels_stem != stem else None
    )
    return LazyDataset(array_source(images, str(path)), re.sub(r"[-.]images.*|[-.]idx.*", "", stem) or stem, labels)


def find_plain_or_packed(folder: Path, stem: str) -> Path | None:
    """The file ``stem`` or ``stem.gz`` in ``folder``, whichever is there."""
    return next((path for path in (folder / stem, folder / f"{stem}.gz") if path.is_file()), None)


def find_idx_images(folder: Path, *, split: str) -> Path | None:
    """The IDX file with the images of ``split`` in ``folder``; None where the folder has no IDX files."""
    files = sorted(path for path in folder.iterdir() if is_idx_name(path.name) and path.is_file())
    if not files:
        return None
    found = [p for p in files if "images" in p.name and any(mark in p.name for mark in _SPLIT_MARKS[split])]
    stems = {path.name.removesuffix(".gz") for path in found}
    if len(stems) != 1:
        raise DatasetError(
            f"{folder} has {len(stems) or 'no'} IDX files with images of the {split} split among "
            f"{', '.join(path.name for path in files[:6])}; name the file itself."
        )
    return found[0]
