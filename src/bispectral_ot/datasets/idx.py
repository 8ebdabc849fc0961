"""IDX, the file format of MNIST: a short big-endian header, then the numbers. Plain or gzipped."""

from __future__ import annotations

import gzip
import math
import re
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

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
