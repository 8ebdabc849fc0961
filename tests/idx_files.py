"""IDX files as the tests write them."""

import gzip
import struct
from pathlib import Path

import numpy as np


def idx_bytes(array: np.ndarray) -> bytes:
    """An array as IDX, written from the format's description."""
    code = {"uint8": 0x08, "int32": 0x0C, "float32": 0x0D}[array.dtype.name]
    header = struct.pack(">HBB", 0, code, array.ndim) + b"".join(struct.pack(">I", size) for size in array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write_idx(path: Path, array: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = idx_bytes(array)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path
