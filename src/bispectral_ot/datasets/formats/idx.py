"""IDX, the file format of MNIST: a short big-endian header, then the numbers. Plain or gzipped."""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.array_names import array_source
from bispectral_ot.datasets.sources import LazyDataset
from bispectral_ot.errors import DatasetError
from bispectral_ot.memory import check_fits

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MOST_AXES = 4


def is_idx_name(name: str) -> bool:
    """Whether a file name says IDX: ``train-images-idx3-ubyte``, ``a.idx``, with or without ``.gz``."""
    return re.search(r"[-.]idx\d?(-\w+)?(\.gz)?$", name.lower()) is not None


def read_idx(path: Path) -> NDArray[Any]:
    """Read one IDX file into an array of the shape that its header names.

    The format: two zero bytes, a type byte, the number of axes, each axis as a 4-byte big-endian integer,
    then the values in C order.
    """
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        opener: Any = gzip.open if packed else open
        with opener(path, "rb") as file:
            return _read_open(file, path)
    except FileNotFoundError:
        raise DatasetError(f"there is no file {path}.") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DatasetError(f"{path} is truncated or corrupt ({error}); get the file again.") from None
    except OSError as error:
        raise DatasetError(f"cannot read {path}: {error.strerror or error}.") from None


def _read_open(file: IO[bytes], path: Path) -> NDArray[Any]:
    start = file.read(4)
    if len(start) < 4 or start[:2] != b"\x00\x00" or start[2] not in _TYPES:
        raise DatasetError(f"{path} is not an IDX file: it begins with {start.hex() or 'nothing'}.")
    dtype, n_axes = np.dtype(_TYPES[start[2]]), start[3]
    if not 1 <= n_axes <= _MOST_AXES:
        raise DatasetError(f"{path} has {n_axes} axes; expected labels with 1, or images with 3 or {_MOST_AXES}.")
    sizes = file.read(4 * n_axes)
    if len(sizes) < 4 * n_axes:
        raise DatasetError(f"{path} is truncated: its header ends after {len(start) + len(sizes)} bytes.")
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
    values = np.frombuffer(content, dtype=dtype).reshape(shape)
    return values.astype(dtype.newbyteorder("="))  # a copy: owned, writeable and in the machine's byte order


def read_idx_images(path: Path) -> NDArray[Any]:
    """Read an IDX file of images, upright.

    The published EMNIST files hold every image transposed; a file that bears such a name (``emnist-...``) is
    turned upright. Files with any other name are taken as they are.
    """
    images = read_idx(path)
    if images.ndim < 3:
        raise DatasetError(f"{path} holds an array of shape {images.shape}, not images; name the file with the images.")
    if path.name.startswith("emnist-"):
        return np.ascontiguousarray(images.swapaxes(1, 2))
    return images


def scan(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """An IDX file of images, with the labels file in the same folder where there is one.

    The labels file has the same name with ``labels`` for ``images`` and ``idx1`` for ``idx3``.
    """
    images = read_idx_images(path)
    stem = path.name.removesuffix(".gz")
    labels_stem = re.sub(r"idx\d", "idx1", stem.replace("images", "labels"))
    labels_path = find_plain_or_packed(path.parent, labels_stem) if labels_stem != stem else None
    labels = read_idx(labels_path) if labels_path else None
    if labels is not None and len(labels) != len(images):
        raise DatasetError(
            f"{labels_path} has {len(labels)} labels but {path} has {len(images)} images; "
            "put the right labels into the same folder, or remove them."
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
    marks = {"train": ("train",), "val": ("val",), "test": ("t10k", "test")}[split]
    found = [path for path in files if "images" in path.name and any(mark in path.name for mark in marks)]
    stems = {path.name.removesuffix(".gz") for path in found}
    if len(stems) != 1:
        raise DatasetError(
            f"{folder} has {len(stems) or 'no'} IDX files with images of the {split} split among "
            f"{', '.join(path.name for path in files[:6])}; name the file itself."
        )
    return found[0]
