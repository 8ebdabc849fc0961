"""Parquet files of the kind that the Hugging Face hub has: encoded images in a column, labels in another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import advise
from bispectral_ot.datasets.array_names import IMAGE_WORDS, LABEL_WORDS, find_key
from bispectral_ot.datasets.image_file import ImageInfo, decode_image, image_header
from bispectral_ot.datasets.io_errors import check_announced, library, reading
from bispectral_ot.datasets.resize import Canvas
from bispectral_ot.datasets.sources import FileSource, LazyDataset
from bispectral_ot.errors import DatasetError
from bispectral_ot.memory import check_fits


def scan(path: Path, split: str, keys: Sequence[str], *, parts: Sequence[Path] = ()) -> LazyDataset:
    """Images in ``image.bytes`` (or in a column of bytes) and labels in ``label``, or in the columns named by ``keys``.

    ``parts`` are the files of one set, where it has several. Columns stay as Arrow keeps them: values that a file
    stores once are in memory once, however many rows have them.
    """
    parquet = library("pyarrow.parquet", extra="parquet", what=path)
    with reading(path):
        files = [parquet.ParquetFile(part) for part in parts or (path,)]
        schema = files[0].schema_arrow
        images, labels = _columns(path, schema, keys)
        announced = sum(
            each.metadata.row_group(i).total_byte_size for each in files for i in range(each.num_row_groups)
        )
        check_announced(announced, sum(part.stat().st_size for part in parts or (path,)), path)
        columns = [images] if labels is None else [images, labels]
        encoded = [leaf for leaf in ("", ".bytes") if _is_bytes(schema.field(images).type, leaf)]
        pixels: list[Any] = []
        values: list[Any] = []
        for part in parts or (path,):
            file = parquet.ParquetFile(part, read_dictionary=[images + leaf for leaf in encoded] + columns[1:])
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=columns)
                check_fits(table.nbytes, str(path), "read a part of it")
                pixels += table.column(images).chunks
                for chunk in table.column(labels).chunks if labels else ():
                    values += _values(path, chunk)
        rows = _Rows(pixels)
    for row in range(len(rows)):
        if not rows.has_image(row):
            raise DatasetError(
                f"{path}: row {row} (counted from 0) has no image; the column {images!r} must hold the bytes of image "
                "files."
            )
    names = [rows.name(row) for row in range(len(rows))]
    classes = _class_names(schema.metadata, labels) if labels else ()
    source = FileSource(range(len(rows)), names, str(path), rows.header, rows.decode)
    return LazyDataset(source, path.stem, values if labels else None, classes, tuple(names))


class _Rows:
    """Encoded images by number, in columns of Arrow."""

    def __init__(self, columns: list[Any]) -> None:
        self.columns = columns
        self.starts = np.cumsum([0, *map(len, self.columns)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def _item(self, row: int, leaf: str) -> Any:
        at = int(np.searchsorted(self.starts, row, side="right")) - 1
        item = self.columns[at][row - self.starts[at]]
        if hasattr(item, "keys"):  # a struct
            return item[leaf] if leaf in item.keys() and item.is_valid else None  # noqa: SIM118 (no dict)
        return item if leaf == "bytes" else None

    def has_image(self, row: int) -> bool:
        item = self._item(row, "bytes")
        return item is not None and bool(item.is_valid)

    def name(self, row: int) -> str:
        path = self._item(row, "path")
        path = None if path is None else path.as_py()
        return f"{row}/{path}" if isinstance(path, str) and path else str(row)

    def header(self, row: int, what: str) -> ImageInfo:
        return image_header(self._item(row, "bytes").as_py(), what)

    def decode(self, row: int, what: str, canvas: Canvas) -> tuple[NDArray[Any], bool]:
        return decode_image(self._item(row, "bytes").as_py(), what, canvas)


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
    starts = {"train": ("train",), "val": ("val",), "test": ("test",)}
    if not any(path.name.startswith(sum(starts.values(), ())) for path in files):
        return files if split == "train" else []
    return [path for path in files if path.name.startswith(starts[split])]


def _columns(path: Path, schema: Any, keys: Sequence[str]) -> tuple[str, str | None]:
    if keys:
        for key in keys[:2]:
            if key not in schema.names:
                raise DatasetError(f"{path} has no column {key!r}; {advise(key, schema.names)}")
        return keys[0], keys[1] if len(keys) > 1 else None
    encoded = [field.name for field in schema if _is_bytes(field.type, "") or _is_bytes(field.type, ".bytes")]
    images = find_key(path, encoded, IMAGE_WORDS, "train") or (encoded[0] if len(encoded) == 1 else None)
    if images is None:
        raise DatasetError(
            f"{path} has no column of encoded images that is called 'image'; its columns are "
            f"{', '.join(schema.names)}. Name others as FILE::IMAGES::LABELS."
        )
    return images, find_key(path, [name for name in schema.names if name not in encoded], LABEL_WORDS, "train")


def _is_bytes(kind: Any, leaf: str) -> bool:
    """Whether a column, or the field ``bytes`` of a struct, holds bytes."""
    types = library("pyarrow.types", extra="parquet", what="Parquet")
    if leaf:
        found = [kind.field(i).type for i in range(kind.num_fields)] if types.is_struct(kind) else []
        return any(kind.field(i).name == "bytes" for i in range(len(found)))
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _class_names(metadata: dict[bytes, bytes] | None, column: str) -> tuple[str, ...]:
    """Names that the ``datasets`` library left in the file; () where there are none."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        return tuple(str(name) for name in features[column]["names"])
    except (KeyError, ValueError, TypeError, RecursionError):
        return ()
