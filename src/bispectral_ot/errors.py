"""The errors a user meets: each says what was expected, what came, and what to do."""

from __future__ import annotations


class InputError(ValueError):
    """Something the caller gave cannot be used; the program exits with code 2."""


class DatasetError(InputError):
    """A dataset cannot be read, found or fetched."""


class MemoryBudgetError(InputError):
    """The work cannot be done within the memory budget; the message says what would be needed."""


class RunExistsError(InputError):
    """The output folder already holds a run."""


class NotConvergedWarning(UserWarning):
    """A solver stopped before it met its tolerance; its result says so (``converged`` is False) and can be used."""


class DataWarning(UserWarning):
    """The input can be used, but the user should know something about it (constant images, ...)."""
