"""Parquet files of the kind that the Hugging Face hub has: encoded images in a column, labels in another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bispectral_ot.checks import advise
from bispectral_ot.datasets.image_files import ImageFiles
from bispectral_ot.datasets.keys import IMAGE_WORDS, LABEL_WORDS, find_key
from bispectral_ot.datasets.listing import Listing
from bispectral_ot.datasets.reading import library, reading
from bispectral_ot.errors import DatasetError
from bispectral_ot.memory import check_fits


def list_parquet(path: Path, split: str, keys: Sequence[str], *, parts: Sequence[Path] = ()) -> Listing:
    """Images in ``image.bytes`` (or in a column of bytes) and labels in ``label``, or in the columns named by ``keys``.

    ``parts`` are the files of one set, where it has several.
    """
    parquet = library("pyarrow.parquet", extra="parquet", what=path)
    with reading(path):
        files = [parquet.ParquetFile(part) for part in parts or (path,)]
        schema = files[0].schema_arrow
        images, labels = _columns(path, schema, keys)
        size = sum(each.metadata.row_group(i).total_byte_size for each in files for i in range(each.num_row_groups))
        check_fits(size, str(path), "read a part of it")
        items: list[Any] = []
        values: list[Any] = []
        for file in files:
            table = file.read(columns=[images] if labels is None else [images, labels])
            items += table.column(images).to_pylist()
            values += [] if labels is None else table.column(labels).to_pylist()
    encoded = [item.get("bytes") if isinstance(item, dict) else item for item in items]
    missing = [row for row, content in enumerate(encoded) if not isinstance(content, bytes)]
    if missing:
        raise DatasetError(
            f"{path}: {len(missing)} of {len(encoded)} rows have no image (row {missing[0]}, counted from 0); "
            f"the column {images!r} must hold the bytes of image files."
        )
    if labels is not None and None in values:
        raise DatasetError(
            f"{path}: row {values.index(None)} has no label; give all rows one, or name the images only."
        )
    names = [_name(row, item) for row, item in enumerate(items)]
    classes = _class_names(schema.metadata, labels) if labels else ()
    return Listing(ImageFiles(encoded, names, str(path)), path.stem, values if labels else None, classes, tuple(names))


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
    encoded = [field.name for field in schema if _has_bytes(field.type)]
    images = find_key(path, encoded, IMAGE_WORDS, "train") or (encoded[0] if len(encoded) == 1 else None)
    if images is None:
        raise DatasetError(
            f"{path} has no column of encoded images that is called 'image'; its columns are "
            f"{', '.join(schema.names)}. Name others as FILE::IMAGES::LABELS."
        )
    return images, find_key(path, [name for name in schema.names if name not in encoded], LABEL_WORDS, "train")


def _has_bytes(kind: Any) -> bool:
    types = library("pyarrow.types", extra="parquet", what="Parquet")
    if types.is_struct(kind):
        return any(kind.field(i).name == "bytes" for i in range(kind.num_fields))
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _name(row: int, item: Any) -> str:
    path = item.get("path") if isinstance(item, dict) else None
    return f"{row}/{path}" if isinstance(path, str) and path else str(row)


def _class_names(metadata: dict[bytes, bytes] | None, column: str) -> tuple[str, ...]:
    """Names that the ``datasets`` library left in the file; () where there are none."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        return tuple(str(name) for name in features[column]["names"])
    except (KeyError, ValueError, TypeError):
        return ()
