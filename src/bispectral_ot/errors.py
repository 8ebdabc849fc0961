"""Exception classes and warnings."""

import sys
import warnings
from pathlib import Path


class InputError(ValueError):
    """Invalid input; the program exits with code 2."""


class DatasetError(InputError):
    """Dataset that cannot be read, found or fetched."""


class MemoryBudgetError(InputError):
    """Memory budget that is too small; the message states the memory needed."""


class ClusterError(InputError):
    """Cluster that cannot be reached or used, or was lost; the message says what to do."""


class RunExistsError(InputError):
    """Output folder with files that a run must not replace."""


class RunKeptError(RuntimeError):
    """Output folder taken during the run, which was saved under another name, in ``folder``. Exit code 1."""

    def __init__(self, message: str, folder: Path) -> None:
        super().__init__(message)
        self.folder = folder


class NotConvergedWarning(UserWarning):
    """Solver that stopped before it met its tolerance; its result has ``converged=False`` and can be used."""


class DataWarning(UserWarning):
    """Valid but unusual input, such as constant images."""


def warn(message: str, category: type[Warning] = DataWarning) -> None:
    """Warn with the line of the caller outside of this package, at any depth of calls."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == __package__:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
