# mypy: disable-error-code="misc, no-untyped-call, assignment"
"""Compiled kernels and their cache, keyed by the content of their sources; a damaged entry is compiled again."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numba
from numba.core import caching, serialize

from bispectral_ot import runtime
from bispectral_ot.files import cache_folder


def njit(**options: Any) -> Any:
    """Compile as ``numba.njit`` does; ``cache=True`` keeps the kernel in the cache folder of this package.

    Functions whose name begins with an underscore are called by other kernels only, and inlined there. Without entry
    points for Python and C they compile in half the time.
    """
    cached = options.pop("cache", False)

    def decorate(function: Callable[..., Any]) -> Any:
        inner = function.__name__.startswith("_")
        # not inlined, one would exist twice, with other roundings: by itself, which the process that compiles it calls,
        # and in the cached code of its caller
        wrappers: Any = {"no_cfunc_wrapper": True, "no_cpython_wrapper": inner}
        kernel = numba.njit(**options, **wrappers, forceinline=inner)(function)
        if cached and _folder() is not None:
            kernel._cache = _KernelCache(function)
        return kernel

    return decorate


@cache
def _folder() -> Path | None:
    """Folder of compiled kernels that only this user can write to, in the cache or the temporary folder; or None."""
    for folder in (cache_folder("kernels"), Path(tempfile.gettempdir(), f"bispectral-ot-kernels-{os.getuid()}")):
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status, owner = folder.lstat(), folder.parent.stat().st_uid
            safe = status.st_uid == os.getuid() and not status.st_mode & 0o022 and owner in (0, os.getuid())
            if safe and os.access(folder, os.W_OK):
                return folder
    _say_once("there is no folder for compiled kernels, so every process compiles them; set BISPECTRAL_OT_CACHE")
    return None


def compile_ahead(kernel: Any, calls: str) -> None:
    """Make some calls in another process if the cache has nothing of the module of a kernel.

    It compiles the kernels of these calls on another core, while this process compiles those that it needs first.
    """
    if _folder() is not None and not Path(kernel._cache.cache_path).exists():
        streams: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        with suppress(OSError):  # no process is left; kernels are then compiled one after the other
            subprocess.Popen([sys.executable, "-c", calls], **streams, start_new_session=True)


@cache
def _hash(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


class _Locator(caching._CacheLocator):
    """Place of a kernel, by the sources of its module and of the modules of this package whose names it uses."""

    def __init__(self, function: Any) -> None:
        used = {getattr(value, "__module__", "") or "" for value in function.__globals__.values()}
        modules = (sys.modules.get(name) for name in sorted({function.__module__, *used}) if "bispectral_ot" in name)
        paths = (getattr(module, "__file__", None) for module in modules)
        self._stamp = hashlib.sha256("".join(_hash(path) for path in paths if path).encode()).hexdigest()
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
    """Compiled code with its checksum."""

    _locator_classes: ClassVar[list[Any]] = [_Locator]

    def reduce(self, data: Any) -> tuple[bytes, bytes]:
        content = serialize.dumps(super().reduce(data))
        return hashlib.sha256(content).digest(), content

    def rebuild(self, target_context: Any, payload: tuple[bytes, bytes]) -> Any:
        checksum, content = payload
        if hashlib.sha256(content).digest() != checksum:
            raise ValueError("checksum")
        return super().rebuild(target_context, pickle.loads(content))


class _KernelCache(caching.FunctionCache):
    _impl_class = _Implementation

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = None
        try:
            found = super().load_overload(sig, target_context)
        except Exception:  # any error of a damaged file
            Path(self._cache_file._index_path).unlink(missing_ok=True)
            _say_once(f"the cache of compiled kernels was damaged and is rebuilt ({self._cache_path})")
        if found is None:
            _say_once("compiling kernels, once; this takes some seconds")
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError:
            self.disable()  # the disk is full, or the folder is gone


@cache
def _say_once(text: str) -> None:
    runtime.message(text)
