"""HDF5 files: arrays by name, read block by block."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bispectral_ot.datasets.keys import list_arrays
from bispectral_ot.datasets.listing import Listing
from bispectral_ot.datasets.reading import library, reading


def list_hdf5(path: Path, split: str, keys: Sequence[str]) -> Listing:
    """``images`` and ``labels``, Galaxy10's ``images`` and ``ans``, or the arrays that ``keys`` name."""
    h5py = library("h5py", extra="hdf5", what=path)
    with reading(path):
        arrays: dict[str, Any] = {}

        def note(name: str, item: Any) -> None:
            # an array may keep its numbers in any other file of the machine: not followed
            if isinstance(item, h5py.Dataset) and not item.external and not item.is_virtual and item.shape is not None:
                arrays[name] = item

        h5py.File(path, "r").visititems(note)  # stays open as long as one of its arrays is used
        return list_arrays(str(path), path.stem, arrays, keys, split)
