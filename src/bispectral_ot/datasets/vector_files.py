"""Files of vectors, such as the embeddings of a network: ``.npy``, ``.npz``, Parquet, HDF5 and AnnData."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bispectral_ot.checks import advise, user_path
from bispectral_ot.datasets.array_names import LABEL_WORDS
from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.formats.array_files import hdf5_arrays, read_hdf5
from bispectral_ot.datasets.io_errors import library, reading
from bispectral_ot.errors import DatasetError, InputError
from bispectral_ot.memory import check_fits

_WORDS = ("vectors", "embeddings", "features", "x")


def read_vectors(word: str) -> Dataset:
    """Vectors in a file, and labels where it has some; ``FILE:NAME`` or ``FILE:NAME:LABELS`` name arrays of it."""
    file, _, keys = word.partition(":") if not user_path(word).exists() else (word, "", "")
    path, asked = user_path(file), [key for key in keys.split(":") if key]
    suffix = path.suffix.lower()
    if not path.is_file():
        raise DatasetError(f"there is no file of vectors {path}; check the path.")
    if suffix not in _READERS:
        raise InputError(f"{path} is no file of vectors; expected {', '.join(_READERS)}.")
    with reading(path):
        arrays = _READERS[suffix](path)
        tables = [name for name, array in arrays.items() if len(array.shape) == 2]
        known = [name for word in _WORDS for name in tables if name.lower() == word]
        chosen = (asked or known or (tables if len(tables) == 1 else [""]))[0]
        if chosen not in tables:
            what = f"there is no table {chosen!r}" if chosen else "it is not clear which array holds the vectors"
            raise InputError(f"{path}: {what}; name it as {path.name}:NAME; {advise(chosen, tables)}")
        labels = (asked[1:] or [name for name in LABEL_WORDS if name in arrays and arrays[name].ndim == 1] or [""])[0]
        if labels and labels not in arrays:
            raise InputError(f"{path} has no labels {labels!r}; {advise(labels, arrays)}")
        check_fits(4 * int(np.prod(arrays[chosen].shape)), str(path), "save a part of it")
        rows, given = (None if not name else _in_memory(arrays[name], path) for name in (chosen, labels))
    return Dataset.from_vectors(rows, given, name=path.stem)  # type: ignore[arg-type]


def _in_memory(array: Any, path: Path) -> Any:
    values = array if isinstance(array, np.ndarray) else read_hdf5(array, path)
    if values.dtype.kind in "SO":
        return np.array([each.decode() if isinstance(each, bytes) else str(each) for each in values])
    return values


def _read_npy(path: Path) -> dict[str, Any]:
    return {"vectors": np.load(path, mmap_mode="r", allow_pickle=False)}


def _read_npz(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _read_anndata(path: Path) -> dict[str, Any]:
    """Arrays of ``obsm``, and the columns of ``obs``, of which those with categories are strings."""
    arrays = hdf5_arrays(path)
    found = {name.partition("/")[2]: each for name, each in arrays.items() if name.startswith(("obs/", "obsm/"))}
    for name in [name.removesuffix("/codes") for name in found if name.endswith("/codes")]:
        categories = _in_memory(found[f"{name}/categories"], path)
        found[name] = categories[read_hdf5(found[f"{name}/codes"], path)]
    return found


def _read_parquet(path: Path) -> dict[str, Any]:
    """Columns by name, those of lists as tables; without any, the columns of numbers together are ``vectors``."""
    table = library("pyarrow.parquet", extra="parquet", what=path).read_table(path)
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        columns[name] = np.stack(column.to_pylist()) if hasattr(column.type, "value_type") else column.to_numpy()
    if not any(each.ndim == 2 for each in columns.values()):
        numbers = {name: each for name, each in columns.items() if each.dtype.kind in "iuf"}
        columns["vectors"] = np.stack([numbers[name] for name in numbers if name.lower() not in LABEL_WORDS], axis=1)
    return columns


_READERS = {
    **{".npy": _read_npy, ".npz": _read_npz, ".parquet": _read_parquet, ".h5ad": _read_anndata},
    **dict.fromkeys((".h5", ".hdf5"), hdf5_arrays),
}
