"""The errors a user meets: each says what was expected, what came, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class InputError(ValueError):
    """Something the caller gave cannot be used; the program exits with code 2."""


class DatasetError(InputError):
    """A dataset cannot be read, found or fetched."""


class MemoryBudgetError(InputError):
    """The work cannot be done within the memory budget; the message says what would be needed."""


class RunExistsError(InputError):
    """The output folder contains something that a run may not replace."""


class RunKeptError(RuntimeError):
    """A finished run could not be put in its place and is kept under another name; the program exits with code 1.

    Attributes
    ----------
    folder : where the run is
    """

    def __init__(self, message: str, folder: Path) -> None:
        super().__init__(message)
        self.folder = folder


class NotConvergedError(RuntimeError):
    """A solver stopped before it met its tolerance.

    Attributes
    ----------
    result
        What the solver had reached: a usable object whose ``converged`` is False.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class NotConvergedWarning(UserWarning):
    """Same as :class:`NotConvergedError`, for callers who chose ``on_failure="warn"``."""


class DataWarning(UserWarning):
    """The input can be used, but the user should know something about it (constant images, ...)."""
