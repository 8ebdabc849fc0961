"""HDF5 files: arrays by name, read block by block."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.array_names import list_arrays
from bispectral_ot.datasets.io_errors import check_chunks, library, refuse_bomb
from bispectral_ot.datasets.sources import LazyDataset
from bispectral_ot.errors import DatasetError

_HARMLESS = 2**19  # bytes of a deflated chunk, of which at most a thousandfold is made
_SECONDS = 30.0  # for the strings of a file, and one more for each 20,000
_READ_STRINGS = """
import resource, sys, h5py
resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
values = h5py.File(sys.argv[1], "r")[sys.argv[2]][...].ravel()
texts = [each if isinstance(each, bytes) else str(each).encode() for each in values]
sys.stdout.buffer.write(b"".join(len(each).to_bytes(8, "little") + each for each in texts))
"""


def scan(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """``images`` and ``labels``, Galaxy10's ``images`` and ``ans``, or the arrays that ``keys`` name."""
    h5py = library("h5py", extra="hdf5", what=path)
    arrays: dict[str, Any] = {}

    def note(name: str, item: Any) -> None:
        # an array may keep its numbers in any other file of the machine: not followed
        if isinstance(item, h5py.Dataset) and not item.external and not item.is_virtual and item.shape is not None:
            arrays[name] = item

    h5py.File(path, "r").visititems(note)  # stays open as long as one of its arrays is used
    lazy = list_arrays(str(path), path.stem, arrays, keys, split, lambda array: _read(array, path))
    _check(lazy.source.rows, path)
    return lazy


def _check(array: Any, path: Path) -> None:
    """Refuse chunks that would take much more memory than the array."""
    what = f"{path}::{array.name}"
    check_chunks(array.chunks, array.shape, array.dtype.itemsize, what)
    if array.compression == "gzip":
        large: list[tuple[int, ...]] = []
        array.id.chunk_iter(lambda chunk: large.append(chunk.chunk_offset) if chunk.size > _HARMLESS else None)
        for offset in large:
            _, encoded = array.id.read_direct_chunk(offset)
            refuse_bomb(encoded, math.prod(array.chunks) * array.dtype.itemsize, what)


def _read(array: Any, path: Path) -> NDArray[Any]:
    """Labels or names of classes; strings by another process, since HDF5 may search damaged files without end."""
    if array.dtype.kind != "O":
        _check(array, path)
        return np.asarray(array[...])
    command = [sys.executable, "-P", "-c", _READ_STRINGS, str(path), array.name]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS + len(array) / 20_000, check=True)
    except subprocess.TimeoutExpired:
        raise DatasetError(
            f"the strings of {path}::{array.name.lstrip('/')} cannot be read in {_SECONDS:.0f} s; the file is damaged, "
            "get or save it again, or read the images alone as FILE::IMAGES."
        ) from None
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode("utf-8", "replace").strip().splitlines()
        raise OSError(lines[-1] if lines else f"h5py ended with code {error.returncode}") from None
    texts, at, content = [], 0, done.stdout
    while at < len(content):
        end = at + 8 + int.from_bytes(content[at : at + 8], "little")
        texts.append(content[at + 8 : end].decode("utf-8", "replace"))
        at = end
    return np.array(texts, dtype=object)
