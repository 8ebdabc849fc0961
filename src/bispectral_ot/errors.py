"""The errors a user meets: each says what was expected, what came, and what to do."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path


class InputError(ValueError):
    """Something the caller gave cannot be used; the program exits with code 2."""


class DatasetError(InputError):
    """A dataset cannot be read, found or fetched."""


class MemoryBudgetError(InputError):
    """The work cannot be done within the memory budget; the message says what would be needed."""


class ClusterError(InputError):
    """A cluster cannot be reached or used, or was lost during the work; the message says what to do."""


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


class NotConvergedWarning(UserWarning):
    """A solver stopped before it met its tolerance; its result says so (``converged`` is False) and can be used."""


class DataWarning(UserWarning):
    """The input can be used, but the user should know something about it (constant images, ...)."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line outside of this package that led here, however deep the call is."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == __package__:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
