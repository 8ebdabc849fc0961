"""Arrays kept on disk between runs: a broken or unwritable cache costs time, never an error."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.cache import cache_folder

Arrays = dict[str, NDArray[np.complex128]]


def content_key(kind: str, *arrays: NDArray[np.generic]) -> str:
    """Name arrays by what they were computed from; ``kind`` changes when the algorithm does."""
    digest = hashlib.sha256(kind.encode())
    for array in arrays:
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return f"{kind}-{digest.hexdigest()[:32]}"


def load_arrays(key: str) -> Arrays | None:
    """The arrays stored under ``key``, or None where there are none that can be read."""
    try:
        with np.load(cache_folder("groups") / f"{key}.npz", allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error):
        return None


def save_arrays(key: str, arrays: Mapping[str, NDArray[np.complex128]]) -> None:
    """Store arrays under ``key``: whole or not at all, since the finished file is renamed into place."""
    folder = cache_folder("groups")
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **dict(arrays))  # type: ignore[arg-type]
            os.replace(name, folder / f"{key}.npz")
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
