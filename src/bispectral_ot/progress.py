"""Progress is a callback: the library calls it, the program turns it into a bar with time left."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called as ``progress(stage, done, total)``; ``total`` is 0 where it is not known beforehand."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Take note that ``done`` of ``total`` units of ``stage`` are finished."""


def silent(stage: str, done: int, total: int) -> None:
    """Ignore progress (the default)."""
