"""Tables with a column of paths and one of labels: CSV, TSV, and data frames."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bispectral_ot.checks import advise
from bispectral_ot.datasets.image_file import SUFFIXES
from bispectral_ot.datasets.io_errors import reading
from bispectral_ot.datasets.sources import FileSource, LazyDataset
from bispectral_ot.errors import DatasetError

PATH_WORDS = ("path", "file", "filename", "file_name", "filepath", "file_path", "image", "image_path", "img", "images")
_LABEL_WORDS = ("label", "labels", "class", "class_name", "target", "category", "y")
_SPLIT_WORDS = ("split", "set", "subset", "fold")
_SPLITS = {"train": ("train", "training"), "val": ("val", "valid", "validation"), "test": ("test", "testing")}
_DELIMITERS = ",;\t"


def scan(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """Files that a table names, relative to its folder, with labels where a column has them."""
    with reading(path), open(path, newline="", encoding="utf-8-sig") as file:
        head = file.readline()
        file.seek(0)
        delimiter = max(_DELIMITERS, key=head.count)
        rows = [row for row in csv.reader(file, delimiter=delimiter, strict=True) if row]
        if len(rows) < 2:
            raise DatasetError(f"{path} has no rows; expected column names (path, label) and a line a file.")
        for number, row in enumerate(rows):
            if len(row) != len(rows[0]):
                raise DatasetError(f"{path}: row {number} has {len(row)} fields, but the first has {len(rows[0])}.")
        columns = {name.strip(): [row[i] for row in rows[1:]] for i, name in enumerate(rows[0])}
        return list_table(columns, path.parent, str(path), path.stem, split=split, keys=keys, inside=True)


def list_table(
    columns: Mapping[str, Sequence[Any]],
    folder: Path,
    what: str,
    name: str,
    *,
    split: str = "train",
    keys: Sequence[str] = (),
    inside: bool = False,
) -> LazyDataset:
    """The set of a table: the columns by name, the folder that paths are relative to, and words for messages.

    ``inside`` refuses paths that leave the folder: a file from elsewhere must not choose what is read.
    """
    paths_column, labels_column = _columns(columns, what, keys)
    rows = _rows_of_split(columns, what, split)
    files = [str(columns[paths_column][i]).strip() for i in rows]
    paths = [folder / file for file in files]
    root = Path(os.path.abspath(folder))
    outside = [file for file in files if inside and not Path(os.path.normpath(root / file)).is_relative_to(root)]
    if outside:
        raise DatasetError(
            f"{what} names {outside[0]}, which is outside of its folder; put the table into a folder above all images, "
            "or load it yourself and give the data frame: bot.load(pandas.read_csv(...))."
        )
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise DatasetError(
            f"{what}: {len(missing)} of {len(paths)} files are not there, such as {missing[0]}; paths are relative to "
            f"{folder}."
        )
    odd = [path for path in paths if path.suffix.lower() not in SUFFIXES]
    if odd:
        raise DatasetError(f"{what} names {odd[0]}; expected image files ({', '.join(SUFFIXES)}).")
    labels = None if labels_column is None else [columns[labels_column][i] for i in rows]
    if labels is not None:
        empty = [
            row for row, label in zip(rows, labels, strict=True) if label is None or str(label).strip() in ("", "nan")
        ]
        if empty:
            raise DatasetError(f"{what}: row {empty[0]} has no label; give all rows one, or leave the column out.")
        labels = [label if isinstance(label, int) else str(label).strip() for label in labels]
        labels = labels if all(isinstance(label, int) for label in labels) else list(map(str, labels))
    return LazyDataset(FileSource(paths, files, str(folder)), name, labels, files=tuple(files))


def _columns(columns: Mapping[str, Sequence[Any]], what: str, keys: Sequence[str]) -> tuple[str, str | None]:
    for key in keys[:2]:
        if key not in columns:
            raise DatasetError(f"{what} has no column {key!r}; {advise(key, columns)}")
    if keys:
        return keys[0], keys[1] if len(keys) > 1 else None
    paths = _named(columns, PATH_WORDS)
    if paths is None:
        raise DatasetError(
            f"{what} has the columns {', '.join(list(columns)[:8])}; expected one called path (or file, filename), and "
            "one called label where there are labels. Name others as FILE::PATHS::LABELS."
        )
    return paths, _named(columns, _LABEL_WORDS)


def _rows_of_split(columns: Mapping[str, Sequence[Any]], what: str, split: str) -> list[int]:
    """Rows of a split, where a column says it; all, where none does."""
    n_rows = len(next(iter(columns.values())))
    column = _named(columns, _SPLIT_WORDS)
    known = {word for words in _SPLITS.values() for word in words}
    if column is not None and {str(value).strip().lower() for value in columns[column]} <= known:
        rows = [i for i in range(n_rows) if str(columns[column][i]).strip().lower() in _SPLITS[split]]
    else:
        rows = list(range(n_rows)) if split == "train" else []
    if not rows:
        raise DatasetError(f"{what} has no rows of the {split} split.")
    return rows


def _named(columns: Mapping[str, Sequence[Any]], words: tuple[str, ...]) -> str | None:
    lower = {str(name).lower(): name for name in reversed(list(columns))}
    return next((lower[word] for word in words if word in lower), None)
