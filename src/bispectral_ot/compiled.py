# mypy: disable-error-code="misc, no-untyped-call, assignment"
"""Compiled kernels and their cache on the disk.

The cache is keyed by the content of the sources that a kernel is made from, so that it survives an upgrade that leaves
them as they are. Entries carry a checksum: a damaged cache is compiled again.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numba
from numba.core import caching

from bispectral_ot import runtime
from bispectral_ot.cache import cache_folder

_said: set[str] = set()


def njit(**options: Any) -> Any:
    """Compile a function as ``numba.njit`` does; with ``cache=True`` in the cache folder of this package.

    Where that folder cannot be used, the function is compiled in every process.
    """
    cached = options.pop("cache", False)

    def decorate(function: Callable[..., Any]) -> Any:
        kernel = numba.njit(**options)(function)
        if cached and _folder() is not None:
            kernel._cache = _KernelCache(function)
        return kernel

    return decorate


@cache
def _folder() -> Path | None:
    """Folder of all compiled kernels; None unless it belongs to the user and nobody else can write to it."""
    folder = cache_folder("kernels")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError:
        return None
    own = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return folder if own and not status.st_mode & 0o022 and os.access(folder, os.W_OK) else None


@cache
def _hash(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


class _Locator(caching._CacheLocator):
    def __init__(self, function: Any) -> None:
        modules = {function.__module__}
        modules |= {getattr(value, "__module__", "") or "" for value in function.__globals__.values()}
        paths = [
            getattr(sys.modules.get(name), "__file__", None) for name in sorted(modules) if "bispectral_ot" in name
        ]
        hashes = "".join(_hash(path) for path in paths if path)
        self._stamp = hashlib.sha256(hashes.encode()).hexdigest()
        self._line = function.__code__.co_firstlineno
        self._py_file = function.__code__.co_filename  # numba names it in its warnings

    def get_cache_path(self) -> str:
        return str((_folder() or Path()) / self._stamp[:20])

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator:
        return cls(py_func)


class _Implementation(caching.CompileResultCacheImpl):
    _locator_classes: ClassVar[list[Any]] = [_Locator]


class _Files(caching.IndexDataCacheFile):
    """Index and data files, each with a checksum in front."""

    def _save_index(self, overloads: Any) -> None:
        self._write(self._index_path, (self._version, self._source_stamp, overloads))

    def _load_index(self) -> Any:
        try:
            version, stamp, overloads = self._read(self._index_path)
        except FileNotFoundError:
            return {}
        return overloads if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), data)

    def _load_data(self, name: str) -> Any:
        return self._read(self._data_path(name))

    def _write(self, path: str, data: Any) -> None:
        content = self._dump(data)
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(content).digest() + content)

    def _read(self, path: str) -> Any:
        content = Path(path).read_bytes()
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            raise ValueError("checksum")
        return pickle.loads(content[32:])


class _KernelCache(caching.FunctionCache):
    _impl_class = _Implementation

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        files = self._cache_file
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, files._source_stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = None
        try:
            found = super().load_overload(sig, target_context)
        except Exception:  # whatever a damaged file leads to
            Path(self._cache_file._index_path).unlink(missing_ok=True)
            _say(f"the cache of compiled kernels was damaged and is made again ({self._cache_path})")
        if found is None:
            _say("compiling kernels; this happens once and takes some seconds")
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError:
            self.disable()  # the disk is full, or the folder is gone


def _say(text: str) -> None:
    if text not in _said:
        _said.add(text)
        runtime.message(text)
