"""What goes wrong with files: damage, and libraries that are not installed."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bispectral_ot.errors import DatasetError, InputError, MemoryBudgetError


@contextmanager
def reading(what: object) -> Iterator[None]:
    """Turn whatever a library raises on a damaged file into a :class:`DatasetError` that names the file."""
    try:
        yield
    except InputError:
        raise
    except MemoryError:
        raise MemoryBudgetError(f"{what} needs more memory than there is; save a part of it.") from None
    except Exception as error:  # decoders raise whatever they like
        said = error.strerror if isinstance(error, OSError) and error.strerror else f"{type(error).__name__}: {error}"
        said = " ".join(said.split())
        raise DatasetError(f"cannot read {what} ({said}); the file is damaged, get or save it again.") from None


def library(name: str, *, extra: str, what: object) -> Any:
    """A library that only some files need, or an error that says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise DatasetError(
            f"{what} is read with {name.partition('.')[0]}, which is not installed; "
            f"install it with: pip install 'bispectral-ot[{extra}]'"
        ) from None
