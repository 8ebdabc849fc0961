"""Tables of images: CSV, Parquet of the Hugging Face hub, and sets of other libraries in memory."""

import csv
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import detached
from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.image_file import SUFFIXES
from bispectral_ot.datasets.io_errors import check_announced, library
from bispectral_ot.datasets.sources import SPLIT_WORDS, FileSource, LazyDataset, choose_names, find_name
from bispectral_ot.errors import DatasetError, InputError
from bispectral_ot.memory import check_fits

_PATH_WORDS = ("path", "file", "filename", "file_name", "filepath", "file_path", "image", "image_path", "img", "images")


def scan_csv(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """Files named in a table, relative to its folder and inside it, with labels if there is a column of them."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        delimiter = max(",;\t", key=file.readline().count)
        file.seek(0)
        rows = [row for row in csv.reader(file, delimiter=delimiter, strict=True) if row]
    if len(rows) < 2:
        raise DatasetError(f"{path} has no rows; expected column names (path, label) and one line per file.")
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise DatasetError(f"{path}: row {number} has {len(row)} fields, but the first has {len(rows[0])}.")
    columns = {name.strip(): [row[i].strip() for row in rows[1:]] for i, name in enumerate(rows[0])}
    return list_table(columns, path, split, keys)


def list_table(
    columns: Mapping[str, Sequence[Any]], path: Path | None = None, split: str = "train", keys: Sequence[str] = ()
) -> LazyDataset:
    """Set of a data frame, or of the file at ``path``, in which all paths must stay inside its folder."""
    what, name, folder = (str(path), path.stem, path.parent) if path else ("the data frame", "frame", None)
    paths_column, labels_column = choose_names(what, list(columns), keys, words=_PATH_WORDS)
    split_column = find_name(what, columns, ("split", "set", "subset", "fold"))
    marks = [str(value).strip().lower() for value in columns[split_column]] if split_column is not None else []
    if marks and set(marks) <= set(sum(SPLIT_WORDS.values(), ())):
        rows = [i for i, mark in enumerate(marks) if mark in SPLIT_WORDS[split]]
    else:
        rows = list(range(len(columns[paths_column]))) if split == "train" else []
    if not rows:
        raise DatasetError(f"{what} has no rows of the {split} split.")
    files, root = [str(columns[paths_column][i]).strip() for i in rows], Path(os.path.abspath(folder or "."))
    for file in files:
        if folder is not None and not Path(os.path.normpath(root / file)).is_relative_to(root):
            raise DatasetError(f"{what} names {file}, which is outside its folder; move it, or load a data frame.")
        if not (root / file).is_file():
            raise DatasetError(f"{what}: there is no file {file}; paths are relative to {root}.")
        if Path(file).suffix.lower() not in SUFFIXES:
            raise DatasetError(f"{what} names {file}; expected image files ({', '.join(SUFFIXES)}).")
    labels = None if labels_column is None else [columns[labels_column][i] for i in rows]
    for row, label in zip(rows, labels or (), strict=False):
        if label is None or str(label).strip() in ("", "nan"):
            raise DatasetError(f"{what}: row {row} has no label; give all rows one, or leave the column out.")
    if labels is not None and not all(isinstance(label, int) for label in labels):
        labels = [str(label).strip() for label in labels]
    source = FileSource([Path(folder or ".", file) for file in files], files, str(folder or "."))
    return LazyDataset(source, name, labels, files=tuple(files))


def scan_parquet(path: Path, split: str, keys: Sequence[str], *, parts: Sequence[Path] = ()) -> LazyDataset:
    """Images in ``image.bytes`` (or in a column of bytes) and labels in ``label``, or in columns named by ``keys``."""
    parquet = library("pyarrow.parquet", extra="parquet", what=path)
    parts = parts or (path,)
    metadata = [parquet.read_metadata(part) for part in parts]
    announced = sum(each.row_group(i).total_byte_size for each in metadata for i in range(each.num_row_groups))
    check_announced(announced, sum(part.stat().st_size for part in parts), path)
    schema = parquet.read_schema(parts[0])
    types = library("pyarrow.types", extra="parquet", what=path)
    leaves = {}  # columns, and the field with the bytes in them
    for field in schema:
        if types.is_binary(field.type) or types.is_large_binary(field.type):
            leaves[field.name] = ""
        elif types.is_struct(field.type) and field.type.get_field_index("bytes") >= 0:
            leaves[field.name] = ".bytes"
    images, labels = choose_names(path, schema.names, keys, only=list(leaves))
    columns = [images] if labels is None else [images, labels]
    tables: list[Any] = []
    for part in parts:
        # values that a file stores once are in memory once, however many rows have them
        file = parquet.ParquetFile(part, read_dictionary=[images + leaves.get(images, ""), *columns[1:]])
        for group in range(file.num_row_groups):
            tables.append(file.read_row_group(group, columns=columns))
            check_fits(tables[-1].nbytes, str(path), "read a part of it")
    table = library("pyarrow", extra="parquet", what=path).concat_tables(tables)
    if labels is not None and table.column(labels).null_count:
        raise DatasetError(f"{path} has rows without a label; give all rows one, or name the images only.")
    values: list[Any] = []
    for chunk in table.column(labels).chunks if labels else ():
        known = chunk.dictionary.to_pylist() if hasattr(chunk, "dictionary") else None
        values += chunk.to_pylist() if known is None else [known[i] for i in chunk.indices.to_pylist()]
    content, names = table.column(images), [str(row) for row in range(len(table))]
    if types.is_struct(content.type):
        compute, field = library("pyarrow.compute", extra="parquet", what=path), content
        content = compute.struct_field(field, "bytes")
        if field.type.get_field_index("path") >= 0:
            files = compute.struct_field(field, "path").to_pylist()
            names = [row if file is None else f"{row}/{file}" for row, file in zip(names, files, strict=True)]
    if content.null_count:
        row = content.is_null().index(True).as_py()
        raise DatasetError(f"{path}: row {row} (counted from 0) has no image in the column {images!r}.")
    classes: tuple[str, ...] = ()
    with suppress(KeyError, ValueError, TypeError, RecursionError):  # names that the library datasets left in the file
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        classes = tuple(str(name) for name in features[labels]["names"])
    source = FileSource(range(len(names)), names, str(path), lambda row: content[row].as_py())
    return LazyDataset(source, path.stem, values if labels else None, classes, tuple(names))


def scan_object(data: Any, name: str) -> LazyDataset:
    """Set of a dataset, a list or a data frame of paths, a ``datasets.Dataset``, torch, or an array."""
    if isinstance(data, Dataset):
        return LazyDataset.of(data)
    if isinstance(data, (list, tuple)) and data and all(isinstance(each, (str, Path)) for each in data):
        return list_table({"path": data})
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        columns = {str(column): data[column].tolist() for column in data.columns}
        if any(column.lower() in _PATH_WORDS for column in columns):
            return list_table(columns)
    elif hasattr(data, "column_names") and hasattr(data, "features"):
        images, column = choose_names("the dataset", list(data.column_names))
        labels = None if column is None else list(data[column])
        classes = () if column is None else tuple(getattr(data.features[column], "names", None) or ())
        return LazyDataset(_items(lambda i: data[i][images], len(data)), "dataset", labels, classes)
    plain = isinstance(data, (list, tuple, dict)) or hasattr(data, "__array__") or hasattr(data, "__dlpack__")
    if plain or not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        shapes: set[Any] = {getattr(part, "shape", ()) for part in data} if isinstance(data, (list, tuple)) else set()
        # arrays (points, 3) of different sizes can only be clouds
        are_clouds = len(shapes) > 1 and all(len(shape) == 2 and shape[1] == 3 for shape in shapes)
        return LazyDataset.of(Dataset(data, name=name, kind="clouds" if are_clouds else "images"))
    n, name = len(data), type(data).__name__.lower()
    if not n or not isinstance(data[0], (tuple, list)) or len(data[0]) < 2:
        return LazyDataset(_items(lambda i: data[i], n), name)
    targets = getattr(data, "targets", None)  # of torchvision; else items are pairs of an image and a label
    found = targets if targets is not None and len(targets) == n else (data[i][1] for i in range(n))
    labels = [label.item() if hasattr(label, "item") else label for label in found]
    classes = (getattr(data, "classes", None) or ()) if all(isinstance(label, int) for label in labels) else ()
    return LazyDataset(_items(lambda i: data[i][0], n), name, labels, tuple(map(str, classes)))


def _items(get: Callable[[int], Any], count: int) -> FileSource:
    names = [f"item {number}" for number in range(count)]
    return FileSource(range(count), names, "the dataset", lambda i: _pixels(get(i), names[i]))


def _pixels(image: Any, what: str) -> NDArray[Any]:
    """Pixels of a Pillow image, an array, or a tensor, whose channels come first as those of torch do."""
    if hasattr(image, "convert") and getattr(image, "mode", "L") not in ("L", "I;16", "I", "F", "RGB"):
        image = image.convert("RGB")
    pixels = np.asarray(detached(image))
    if pixels.ndim == 3 and pixels.shape[0] <= 4 < pixels.shape[2]:
        pixels = np.moveaxis(pixels, 0, -1)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    if pixels.ndim not in (2, 3) or 0 in pixels.shape or pixels.dtype.kind not in "buif":
        raise InputError(f"{what} must be an image (height, width[, channels]), got {type(image)} {pixels.shape}.")
    return pixels.astype(np.uint8) if pixels.dtype == np.bool_ else pixels
