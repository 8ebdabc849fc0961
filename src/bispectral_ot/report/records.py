"""Typed records that a run keeps for its page, as JSON files that may come back damaged."""

from __future__ import annotations

import dataclasses
import json
import types
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from bispectral_ot.errors import InputError
from bispectral_ot.files import write_text

Record = TypeVar("Record")
# A JSON object whose entries are written for readers, such as the content of results.json.
JsonObject: TypeAlias = dict[str, Any]


def save_record(path: Path, record: Any) -> None:
    """Write a dataclass as JSON, whole or not at all."""
    write_text(path, record_json(record))


def record_json(content: Any) -> str:
    """Compact JSON of values in JSON's own types and of dataclasses."""
    return json.dumps(content, default=vars, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def read_json(path: Path) -> Any:
    """Content of a JSON file, in which numbers that are not finite are None."""
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda _: None)


def load_record(path: Path, kind: type[Record]) -> Record:
    """Read what :func:`save_record` has written; an :class:`InputError` names a damaged file and what is wrong."""
    try:
        found: Record = as_record(read_json(path), kind)
        return found
    except (OSError, ValueError, TypeError, RecursionError, MemoryError) as error:
        reason = str(error) or type(error).__name__
        raise InputError(
            f"{path} is damaged, or not the data of a report ({reason}); make the run again for it. Its results.json, "
            "tables and figures are not affected."
        ) from error


def as_record(value: Any, kind: Any, where: str = "it") -> Any:
    """JSON value as an instance of ``kind``; a :class:`ValueError` where it does not have its types.

    Kinds are dataclasses, ``int``, ``float``, ``str``, ``bool``, ``dict``, ``list[...]`` and unions of these.

    Examples
    --------
    >>> as_record([1, 2.5], list[float])
    [1, 2.5]
    >>> as_record([1, "a"], list[float])
    Traceback (most recent call last):
    ValueError: it[1] is str, not float
    """
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, dict):
            raise ValueError(f"{where} is {type(value).__name__}, not a set of entries")
        hints = get_type_hints(kind)
        missing = [field.name for field in dataclasses.fields(kind) if field.name not in value]
        if missing:
            raise ValueError(f"{where} has no {missing[0]!r}")
        return kind(**{name: as_record(value[name], hint, name) for name, hint in hints.items()})  # type: ignore[operator]
    if get_origin(kind) in (Union, types.UnionType):
        choices = get_args(kind)
        if value is None and type(None) in choices:
            return None
        return as_record(value, next(choice for choice in choices if choice is not type(None)), where)
    if get_origin(kind) is list:
        if not isinstance(value, list):
            raise ValueError(f"{where} is {type(value).__name__}, not a list")
        (inner,) = get_args(kind)
        return [as_record(item, inner, f"{where}[{i}]") for i, item in enumerate(value)]
    plain = get_origin(kind) or kind
    if plain is Any:
        return value
    fits = isinstance(value, (int, float) if plain is float else plain)
    if not fits or (isinstance(value, bool) and plain in (int, float)):
        raise ValueError(f"{where} is {type(value).__name__}, not {plain.__name__}")
    return value
