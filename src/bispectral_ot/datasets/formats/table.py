"""Tables with a column of paths and one of labels: CSV, TSV, and data frames."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bispectral_ot.datasets.array_names import choose_names, find_name
from bispectral_ot.datasets.image_file import SUFFIXES
from bispectral_ot.datasets.sources import FileSource, LazyDataset
from bispectral_ot.errors import DatasetError

PATH_WORDS = ("path", "file", "filename", "file_name", "filepath", "file_path", "image", "image_path", "img", "images")
_SPLIT_WORDS = ("split", "set", "subset", "fold")
_SPLITS = {"train": ("train", "training"), "val": ("val", "valid", "validation"), "test": ("test", "testing")}


def scan(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """Files that a table names, relative to its folder and inside of it, with labels where a column has them."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        delimiter = max(",;\t", key=file.readline().count)
        file.seek(0)
        rows = [row for row in csv.reader(file, delimiter=delimiter, strict=True) if row]
    if len(rows) < 2:
        raise DatasetError(f"{path} has no rows; expected column names (path, label) and a line a file.")
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise DatasetError(f"{path}: row {number} has {len(row)} fields, but the first has {len(rows[0])}.")
    columns = {name.strip(): [row[i].strip() for row in rows[1:]] for i, name in enumerate(rows[0])}
    root, column = Path(os.path.abspath(path.parent)), choose_names(path, list(columns), keys, words=PATH_WORDS)[0]
    for name in columns[column]:  # a file from elsewhere must not choose what is read
        if not Path(os.path.normpath(root / name)).is_relative_to(root):
            raise DatasetError(
                f"{path} names {name}, which is outside of its folder; put the table into a folder above all images, "
                "or load it yourself and give the data frame: bot.load(pandas.read_csv(...))."
            )
    return list_table(columns, path.parent, str(path), path.stem, split=split, keys=keys)


def list_table(
    columns: Mapping[str, Sequence[Any]],
    folder: Path,
    what: str,
    name: str,
    *,
    split: str = "train",
    keys: Sequence[str] = (),
) -> LazyDataset:
    """The set of a table: the columns by name, the folder that paths are relative to, and words for messages."""
    paths_column, labels_column = choose_names(what, list(columns), keys, words=PATH_WORDS)
    rows = _rows_of_split(columns, what, split)
    files = [str(columns[paths_column][i]).strip() for i in rows]
    paths = [folder / file for file in files]
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
        for row, label in zip(rows, labels, strict=True):
            if label is None or str(label).strip() in ("", "nan"):
                raise DatasetError(f"{what}: row {row} has no label; give all rows one, or leave the column out.")
        if not all(isinstance(label, int) for label in labels):
            labels = [str(label).strip() for label in labels]
    return LazyDataset(FileSource(paths, files, str(folder)), name, labels, files=tuple(files))


def _rows_of_split(columns: Mapping[str, Sequence[Any]], what: str, split: str) -> list[int]:
    """Rows of a split, where a column says it; all, where none does."""
    column = find_name(what, columns, _SPLIT_WORDS)
    marks = [str(value).strip().lower() for value in columns[column]] if column is not None else []
    if marks and set(marks) <= set(sum(_SPLITS.values(), ())):
        rows = [i for i, mark in enumerate(marks) if mark in _SPLITS[split]]
    else:
        rows = list(range(len(next(iter(columns.values()))))) if split == "train" else []
    if not rows:
        raise DatasetError(f"{what} has no rows of the {split} split.")
    return rows
