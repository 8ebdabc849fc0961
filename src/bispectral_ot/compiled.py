"""Compiled kernels, kept on the disk between two calls of the program where there is a place for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def njit(**options: Any) -> Any:
    """Compile a function as ``numba.njit`` does, without its cache where that has no place.

    Numba raises an error where it can write neither to the package's folder nor to the user's cache; here the function
    is then compiled in every process. A folder that everybody can write to is no place: Numba runs what its cache has.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(**options)(function)
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
            return numba.njit(**{**options, "cache": False})(function)

    return decorate
