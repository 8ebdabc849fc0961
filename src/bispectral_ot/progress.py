"""Progress is a callback: the library calls it, the program turns it into a bar with time left."""

from __future__ import annotations

import html
import importlib
import sys
import time
from typing import Any, Protocol


class Progress(Protocol):
    """Called as ``progress(stage, done, total)``; ``total`` is 0 where it is not known beforehand."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Take note that ``done`` of ``total`` units of ``stage`` are finished."""


def silent(stage: str, done: int, total: int) -> None:
    """Ignore progress (the default)."""


class ProgressBar:
    """A bar for each stage of what is running: in a notebook below its cell, else a line on standard error.

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> source, target = bot.split_halves(bot.load("digits"), per_class=10)
    >>> bot.match(source, target, progress=bot.ProgressBar()).converged
    True
    """

    def __init__(self) -> None:
        self._stages: dict[str, tuple[int, int]] = {}
        self._shown = 0.0
        self._handle: Any = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Take note, and draw; at most ten times a second, and whenever a stage ends."""
        self._stages[stage] = done, total
        now = time.monotonic()
        if done < total and now - self._shown < 0.1:
            return
        self._shown = now
        if _in_notebook():
            self._draw()
        else:
            share = f"{done / total:4.0%}" if total else f"{done:,}"
            print(f"\r{stage}: {share}", end="\n" if done >= total > 0 else "", file=sys.stderr, flush=True)

    def _draw(self) -> None:
        notebook: Any = importlib.import_module("IPython.display")
        rows = "".join(
            f"<tr><td>{html.escape(stage)}</td><td><progress value='{done}' max='{max(total, 1)}'></progress></td>"
            f"<td>{done:,}{f' of {total:,}' if total else ''}</td></tr>"
            for stage, (done, total) in self._stages.items()
        )
        shown = notebook.HTML(f"<table>{rows}</table>")
        if self._handle is None:
            self._handle = notebook.display(shown, display_id=True)
        else:
            self._handle.update(shown)


def _in_notebook() -> bool:
    """Whether a Jupyter kernel runs this; IPython is not loaded to find out."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")
