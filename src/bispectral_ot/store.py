"""Store for resumable work: results in a folder, each under a hash of all its inputs."""

import dataclasses
import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bispectral_ot.errors import InputError, warn
from bispectral_ot.files import whole_file

T = TypeVar("T")
_HEADER, _CHECKSUM = "header.json", "checksum"
_BLOCK_ROWS = 4096


def content_hash(*parts: Any) -> str:
    """Hash of arrays (type, shape, bytes), dataclasses, mappings, sequences, numbers, strings; others are refused."""
    digest = hashlib.blake2b(digest_size=16)
    _update(digest, parts)
    return digest.hexdigest()


def dataset_hash(dataset: Any) -> str:
    """Hash of the images, labels and class names of a dataset; chunked images are read block by block."""
    return content_hash(dataset.kind, dataset.signals, dataset.labels, dataset.classes)


def _fields(part: Any) -> dict[str, Any]:
    return {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}


def _update(digest: Any, part: Any) -> None:
    if dataclasses.is_dataclass(part):
        part = _fields(part)
    if isinstance(part, Mapping):
        part = sorted(part.items())
    if isinstance(part, np.generic):
        part = part.item()
    if hasattr(part, "shape") and hasattr(part, "dtype"):
        digest.update(f"array {part.shape} {part.dtype} ".encode())
        for start in range(0, len(part), _BLOCK_ROWS):
            digest.update(np.ascontiguousarray(part[start : start + _BLOCK_ROWS]).data)
    elif isinstance(part, (list, tuple)):
        digest.update(f"sequence {len(part)} ".encode())
        for each in part:
            _update(digest, each)
    elif part is None or isinstance(part, (str, int, float)):
        text = repr(part).encode("utf-8", "backslashreplace")
        digest.update(f"{type(part).__name__} {len(text)} ".encode() + text)
    else:
        raise TypeError(f"cannot hash {type(part).__name__}")


class Store:
    """Results of finished parts in a folder (None: kept nowhere), one ``.npz`` file each."""

    def __init__(self, folder: str | Path | None) -> None:
        self.folder = None if folder is None else Path(folder)
        self.reused = 0

    def result(self, parts: Any, kind: Callable[..., T], compute: Callable[[], T]) -> T:
        """Result (dataclass or dict, made by ``kind``) under the hash of ``parts``, computed if missing."""
        if self.folder is None:
            return compute()
        path = self.folder / f"{content_hash(parts)}.npz"
        if path.is_file():
            try:
                found = kind(**read_record(path))
            except (OSError, ValueError, TypeError, KeyError, RecursionError, zipfile.BadZipFile) as error:
                warn(f"{path} cannot be read ({error}) and is computed again.")
            else:
                self.reused += 1
                return found
        result = compute()
        write_record(path, result)
        return result


def read_record(path: Path) -> dict[str, Any]:
    """Content of a file that :func:`write_record` has written; a ValueError if its checksum does not fit.

    Dataclasses come back as dicts, tuples as lists.
    """
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    header = str(arrays.pop(_HEADER))
    if str(arrays.pop(_CHECKSUM)) != content_hash(header, arrays):
        raise ValueError("its checksum does not fit its content")
    found = json.loads(header, object_hook=lambda each: arrays[each["array"]] if each.keys() == {"array"} else each)
    return dict(found)


def write_record(path: Path, result: Any) -> None:
    """Write a dict or a dataclass as one ``.npz`` file with a checksum.

    Entries are arrays, numbers, strings, None, fitted transformers, and sequences, dicts and dataclasses of these.
    """
    arrays: dict[str, Any] = {}

    def as_json(value: Any) -> Any:
        """JSON value for what JSON has none for; an array is written beside the text, which names it."""
        if hasattr(value, "get_state"):  # a fitted transformer
            return value.get_state()
        if dataclasses.is_dataclass(value):
            return _fields(value)
        if isinstance(value, np.generic):
            return value.item()
        if not isinstance(value, np.ndarray):
            raise InputError(f"{value!r} cannot be saved.")
        name = f"array{len(arrays)}"
        arrays[name] = value
        return {"array": name}

    header = json.dumps(result, default=as_json)
    arrays |= {_HEADER: np.array(header), _CHECKSUM: np.array(content_hash(header, arrays))}
    with whole_file(path) as partial, open(partial, "wb") as file:
        np.savez(file, **arrays)
