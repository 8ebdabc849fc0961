"""Corrections: labels that a reader has given on the page of a match, as labelled targets of the next match."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from bispectral_ot.datasets import Dataset
from bispectral_ot.drawing import printable
from bispectral_ot.errors import InputError


def correction_rows(path: str | Path) -> pd.DataFrame:
    """Rows of a CSV file with the columns ``label``, and ``source`` (position) or ``file``; missing cells are empty."""
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except pd.errors.EmptyDataError:
        table = pd.DataFrame()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read the corrections {path}: {reason}.") from None
    if "label" not in table or not {"source", "file"} & set(table):
        raise InputError(f"{path} has the columns {', '.join(table) or 'none'}; it needs label, and source or file.")
    return table.reindex(columns=["label", "file", "source"], fill_value="")


def read_corrections(path: str | Path, source: Dataset) -> dict[int, str]:
    """Labels by row of ``source``, from a file of :func:`correction_rows`.

    Rows are identified by file if they name one and the source has files, else by position. Rows without a label are
    ignored; of several rows for one image the last counts.
    """
    table = correction_rows(path)
    files = {name: row for row, name in enumerate(source.files)}
    positions = {str(position): row for row, position in enumerate(source.positions)}
    found: dict[int, str] = {}
    for line, row in enumerate(table.to_numpy(), start=2):
        label, file, position = (cell.strip() for cell in row)
        if not label:
            continue
        place = files.get(file) if file and files else positions.get(position)
        if place is None:
            problem = f"the source {source.name!r} has no image {printable(file or position)!r}"
            raise InputError(f"{path}, line {line}: {problem}; give the corrections of a match of the same source.")
        found[place] = label
    if not found:
        raise InputError(f"{path} has no labels; export it from the page of a match.")
    return found


def with_corrections(source: Dataset, target: Dataset, path: str | Path) -> tuple[Dataset, Dataset]:
    """Remaining sources, and the targets followed by the sources whose label was corrected or confirmed."""
    if target.labels is None:
        raise InputError(f"the target {target.name!r} has no labels, so corrections have no use; leave them out.")
    if source.images.shape[1:] != target.images.shape[1:]:
        raise InputError("corrected sources can be used as targets only if all images have one size.")
    found = read_corrections(path, source)
    rows = np.array(list(found))
    if len(rows) == len(source):
        raise InputError(f"{path} has labels for all images of the source, so there is nothing to match.")
    classes = tuple(dict.fromkeys([*target.classes, *found.values()]))
    files: list[str] = []
    if target.files or source.files:
        files = [*(target.files or [""] * len(target)), *(source.files[row] if source.files else "" for row in rows)]
    more = replace(
        target,
        images=np.concatenate([target.images, source.images[rows]]),
        labels=np.concatenate([target.labels, [classes.index(label) for label in found.values()]]),
        classes=classes,
        files=tuple(files),
        positions=np.concatenate([target.positions, target.positions.max() + 1 + np.arange(len(rows))]),
        vectors=None if target.vectors is None else np.concatenate([target.vectors, source.signals[rows]]),
    )
    return source.select(np.setdiff1d(np.arange(len(source)), rows)), more
