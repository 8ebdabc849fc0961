"""Text, JSON and CSV files that are written whole or not at all."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from bispectral_ot.temporary import temporary

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A temporary file in the same folder, renamed to ``path`` when the block ends without an error."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with temporary(target) as partial:
        yield partial
        with open(partial, "rb") as file:
            os.fsync(file.fileno())  # else a power cut may leave the new name with no content
        os.replace(partial, target)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with whole_file(path) as partial:
        # file names may hold bytes that are no text in UTF-8: they are written as \udcXX
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_json(path: str | Path, data: Any) -> None:
    """Write JSON, whole or not at all; see :func:`to_json`."""
    write_text(path, to_json(data) + "\n")


def to_json(data: Any) -> str:
    """JSON text; NumPy numbers and arrays are understood, NaN becomes null, other objects their string.

    A list of numbers or strings stays on one line, and float32 numbers have no more digits than they are worth.
    """
    return _lay_out(_plain(data))


def _lay_out(value: Any, indent: str = "\n") -> str:
    """JSON with two spaces of indentation, as ``json.dumps`` has it, but for lists of scalars (see :func:`to_json`)."""
    inner = indent + "  "
    if isinstance(value, dict) and value:
        entries = (f"{json.dumps(key, ensure_ascii=False)}: {_lay_out(item, inner)}" for key, item in value.items())
        return "{" + inner + f",{inner}".join(entries) + indent + "}"
    if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        return "[" + inner + f",{inner}".join(_lay_out(item, inner) for item in value) + indent + "]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def write_csv(path: str | Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file, whole or not at all; strings that spreadsheets would take for formulas get an apostrophe."""
    lines: list[str] = []
    # only with this end of line both \r and \n inside a cell are quoted
    writer = csv.writer(SimpleNamespace(write=lines.append), lineterminator="\r\n")
    writer.writerows([_without_formula(cell) for cell in row] for row in (header, *rows))
    write_text(path, "".join(line.removesuffix("\r\n") + "\n" for line in lines))


def _without_formula(cell: Any) -> Any:
    if isinstance(cell, str) and cell.startswith(_FORMULA) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def _plain(value: Any) -> Any:
    """The value in JSON's own types."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        short = value.astype(str).astype(np.float64) if value.dtype == np.float32 else value
        return _plain(short.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    return str(value)
