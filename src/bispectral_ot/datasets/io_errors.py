"""Errors of files: damage, announced sizes that cannot be true, and libraries that are not installed."""

import importlib
import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bispectral_ot.errors import DatasetError, InputError, MemoryBudgetError
from bispectral_ot.memory import check_fits, format_bytes


@contextmanager
def reading(what: object) -> Iterator[None]:
    """Convert any error of a library on a damaged file to a :class:`DatasetError` that names the file."""
    try:
        yield
    except InputError:
        raise
    except MemoryError:
        raise MemoryBudgetError(f"{what} needs more memory than there is; save a part of it as another file.") from None
    except Exception as error:  # decoders raise any kind of error
        if isinstance(error, OSError) and error.strerror:
            raise DatasetError(f"cannot read {what}: {error.strerror}.") from None
        said = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        raise DatasetError(f"cannot read {what} ({said}); the file is damaged, get or save it again.") from None


def check_announced(count: int, stored: int, what: object) -> None:
    """Refuse a file of ``stored`` bytes that declares ``count`` bytes of data: beyond memory, or beyond belief."""
    if count > max(2**24, 2**14 * stored):  # deflate reaches 1,032, and blank pages some thousands
        sizes = f"{format_bytes(count)} of pixels but has {format_bytes(stored)} only"
        raise DatasetError(f"{what} declares {sizes}; the file is damaged: get or save it again.")
    if count > 2**24:
        check_fits(count, str(what), "save a part of it, or smaller images")


def check_chunks(chunks: tuple[int, ...] | None, shape: tuple[int, ...], itemsize: int, what: object) -> None:
    """Refuse chunks that are much larger than the array that they store: they are decoded as a whole."""
    count, whole = itemsize * math.prod(chunks or ()), itemsize * math.prod(shape)
    if count > max(2**26, 4 * whole):
        raise DatasetError(f"{what} has {format_bytes(whole)} in chunks of {format_bytes(count)}; the file is damaged.")
    check_fits(count, f"a chunk of {what}", "save it in smaller chunks")


def refuse_bomb(encoded: bytes, limit: int, what: object) -> None:
    """Refuse deflated bytes (zlib or gzip) of more than ``limit`` bytes."""
    most = limit + 2**10  # with checksums
    if len(zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(encoded, most)) >= most:
        raise DatasetError(f"{what} has a chunk that is larger than announced; the file is damaged, get it again.")


def library(name: str, *, extra: str, what: object) -> Any:
    """Import a library that only some files need, or raise an error that says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        missing, command = name.partition(".")[0], f"pip install 'bispectral-ot[{extra}]'"
        raise DatasetError(f"{what} is read with {missing}, which is not installed; use: {command}") from None
