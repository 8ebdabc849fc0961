"""Files that appear complete or not at all: text, JSON and CSV, temporary names, the cache folder."""

import csv
import json
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar

import numpy as np

from bispectral_ot.checks import user_path
from bispectral_ot.errors import InputError

# Control characters that JSON does not escape, and changes of writing direction: a terminal would obey them.
_CONTROLS = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_P = ParamSpec("_P")
_T = TypeVar("_T")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def cache_folder(name: str) -> Path:
    """Folder ``name`` in ``$BISPECTRAL_OT_CACHE``, else in the user's cache folder, else in the temporary folder."""
    asked = os.environ.get("BISPECTRAL_OT_CACHE")
    if asked:
        return user_path(asked) / name
    import platformdirs

    try:
        folder = Path(platformdirs.user_cache_dir("bispectral-ot", appauthor=False))
    except RuntimeError:  # no home folder; earlier versions gave a path that begins with ~
        folder = Path("~")
    return (folder if folder.is_absolute() else Path(tempfile.gettempdir(), f"bispectral-ot-{os.getuid()}")) / name


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Hidden file with an unpredictable name in the same folder, renamed to ``path`` if the block raises nothing."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.stem[:40]}-partial-{secrets.token_hex(8)}{target.suffix}")
    partial.touch(exist_ok=False)
    try:
        yield partial
        with open(partial, "rb") as file:
            os.fsync(file.fileno())  # otherwise a power cut may leave an empty file
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with whole_file(path) as partial:
        # file names may contain bytes that are not UTF-8: they are written as \udcXX
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_json(path: str | Path, data: Any) -> None:
    """Write JSON, whole or not at all; see :func:`to_json`."""
    write_text(path, to_json(data) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; an :class:`InputError` names a file that cannot be read, or is damaged."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from None
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        raise InputError(f"{path} is damaged ({str(error) or type(error).__name__}).") from None


def to_json(data: Any) -> str:
    """JSON text, lists of numbers on one line; NumPy is understood, NaN becomes null, other objects their string."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", _lay_out(plain(data)))


def _lay_out(value: Any, indent: str = "\n") -> str:
    inner = indent + "  "
    if isinstance(value, dict) and value:
        entries = (f"{json.dumps(key, ensure_ascii=False)}: {_lay_out(item, inner)}" for key, item in value.items())
        return "{" + inner + f",{inner}".join(entries) + indent + "}"
    if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        return "[" + inner + f",{inner}".join(_lay_out(item, inner) for item in value) + indent + "]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """Value in JSON's own types, with None for numbers that are not finite."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        value = (value.astype(str).astype(np.float64) if value.dtype == np.float32 else value).tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


def any_names(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Repeat a call whose tables hold names that are not UTF-8, which text of pyarrow (pandas 3) refuses."""

    @wraps(function)
    def call(*args: _P.args, **options: _P.kwargs) -> _T:
        try:
            return function(*args, **options)
        except UnicodeEncodeError:
            from pandas import option_context

            with option_context("mode.string_storage", "python"):
                return function(*args, **options)

    return call


def write_csv(path: str | Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file, whole or not at all; strings that spreadsheets would take for formulas get an apostrophe."""
    lines: list[str] = []
    # only with this end of line both \r and \n inside a cell are quoted
    writer = csv.writer(SimpleNamespace(write=lines.append), lineterminator="\r\n")
    for row in (header, *rows):
        formulas = [isinstance(x, str) and x.startswith(tuple("=+-@\t\r\n")) and not _NUMBER.fullmatch(x) for x in row]
        writer.writerow([f"'{cell}" if formula else cell for cell, formula in zip(row, formulas, strict=True)])
    write_text(path, "".join(line.removesuffix("\r\n") + "\n" for line in lines))
