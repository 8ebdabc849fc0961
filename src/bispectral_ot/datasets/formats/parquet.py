"""Parquet files of the kind that the Hugging Face hub has: encoded images in a column, labels in another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bispectral_ot.datasets.array_names import choose_names
from bispectral_ot.datasets.io_errors import check_announced, library
from bispectral_ot.datasets.sources import FileSource, LazyDataset
from bispectral_ot.errors import DatasetError
from bispectral_ot.memory import check_fits

_SPLITS = ("train", "val", "test")


def scan(path: Path, split: str, keys: Sequence[str], *, parts: Sequence[Path] = ()) -> LazyDataset:
    """Images in ``image.bytes`` (or in a column of bytes) and labels in ``label``, or in the columns named by ``keys``.

    ``parts`` are the files of one set, where it has several. Columns stay as Arrow keeps them: values that a file
    stores once are in memory once, however many rows have them.
    """
    parquet = library("pyarrow.parquet", extra="parquet", what=path)
    parts = parts or (path,)
    metadata = [parquet.read_metadata(part) for part in parts]
    announced = sum(each.row_group(i).total_byte_size for each in metadata for i in range(each.num_row_groups))
    check_announced(announced, sum(part.stat().st_size for part in parts), path)
    schema = parquet.read_schema(parts[0])
    leaves = {field.name: leaf for field in schema if (leaf := _leaf(field)) is not None}
    images, labels = choose_names(path, schema.names, keys, candidates=list(leaves))
    columns = [images] if labels is None else [images, labels]
    pixels: list[Any] = []
    values: list[Any] = []
    for part in parts:
        file = parquet.ParquetFile(part, read_dictionary=[images + leaves.get(images, ""), *columns[1:]])
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=columns)
            check_fits(table.nbytes, str(path), "read a part of it")
            pixels += table.column(images).chunks
            for chunk in table.column(labels).chunks if labels else ():
                values += _values(path, chunk)
    rows = _Rows(pixels)
    for row in range(len(rows)):
        if rows.get(row) is None:
            raise DatasetError(
                f"{path}: row {row} (counted from 0) has no image; the column {images!r} must hold the bytes of image "
                "files."
            )
    files = [rows.get(row, "path") for row in range(len(rows))]
    names = [f"{row}/{file.as_py()}" if file is not None else str(row) for row, file in enumerate(files)]
    source = FileSource(range(len(rows)), names, str(path), rows.content)
    classes = _class_names(schema.metadata, labels) if labels else ()
    return LazyDataset(source, path.stem, values if labels else None, classes, tuple(names))


class _Rows:
    """Encoded images by number, in columns of Arrow."""

    def __init__(self, columns: list[Any]) -> None:
        self.columns, self.starts = columns, np.cumsum([0, *map(len, columns)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def get(self, row: int, leaf: str = "bytes") -> Any:
        """A value of Arrow that is not null, or None."""
        at = int(np.searchsorted(self.starts, row, side="right")) - 1
        item = self.columns[at][int(row - self.starts[at])]
        if hasattr(item, "keys"):  # a struct
            item = item[leaf] if item.is_valid and leaf in list(item.keys()) else None
        elif leaf != "bytes":
            return None
        return item if item is not None and item.is_valid else None

    def content(self, row: int) -> Any:
        return self.get(row).as_py()


def _leaf(field: Any) -> str | None:
    """Path of the bytes below a column: "" or ".bytes"; None where it has no bytes."""
    types = library("pyarrow.types", extra="parquet", what="Parquet")
    if types.is_struct(field.type):
        return ".bytes" if field.type.get_field_index("bytes") >= 0 else None
    return "" if types.is_binary(field.type) or types.is_large_binary(field.type) else None


def _values(path: Path, column: Any) -> list[Any]:
    """Labels of a column; those that it stores once are one object."""
    if column.null_count:
        raise DatasetError(f"{path} has rows without a label; give all rows one, or name the images only.")
    if hasattr(column, "dictionary"):
        values = column.dictionary.to_pylist()
        return [values[i] for i in column.indices.to_pylist()]
    return list(column.to_pylist())


def find_parts(folder: Path, split: str) -> list[Path]:
    """The Parquet files of ``split`` in a folder: all of them, or those called ``train-00000-of-00002.parquet``."""
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".parquet" and path.is_file())
    if not any(path.name.startswith(_SPLITS) for path in files):
        return files if split == "train" else []
    return [path for path in files if path.name.startswith(split)]


def _class_names(metadata: dict[bytes, bytes] | None, column: str) -> tuple[str, ...]:
    """Names that the ``datasets`` library left in the file; () where there are none."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        return tuple(str(name) for name in features[column]["names"])
    except (KeyError, ValueError, TypeError, RecursionError):
        return ()
