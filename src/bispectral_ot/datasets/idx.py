"""IDX, the file format of MNIST: a short big-endian header, then the numbers. Plain or gzipped."""

from __future__ import annotations

import gzip
import math
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.errors import DatasetError

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


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
            content = file.read()
    except FileNotFoundError:
        raise DatasetError(f"there is no file {path}.") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DatasetError(f"{path} is truncated or corrupt ({error}); get the file again.") from None
    except OSError as error:
        raise DatasetError(f"cannot read {path}: {error.strerror or error}.") from None
    if len(content) < 4 or content[:2] != b"\x00\x00" or content[2] not in _TYPES:
        raise DatasetError(f"{path} is not an IDX file: it begins with {content[:4].hex() or 'nothing'}.")
    dtype, n_axes = np.dtype(_TYPES[content[2]]), content[3]
    header = 4 + 4 * n_axes
    if len(content) < header:
        raise DatasetError(f"{path} is truncated: its header needs {header} bytes, but it has {len(content)}.")
    shape = tuple(int(size) for size in np.frombuffer(content[4:header], dtype=">u4"))
    expected = math.prod(shape) * dtype.itemsize
    if len(content) - header != expected:
        raise DatasetError(
            f"{path} is truncated or corrupt: its header names {expected:,} bytes of shape {shape}, "
            f"but {len(content) - header:,} follow; get the file again."
        )
    values = np.frombuffer(content, dtype=dtype, offset=header).reshape(shape)
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
