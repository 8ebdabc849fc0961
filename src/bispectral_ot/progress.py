"""Progress callbacks, and progress bars for terminals and notebooks."""

from __future__ import annotations

import warnings
from typing import Any, Protocol


class Progress(Protocol):
    """Called as ``progress(stage, done, total)``; ``total`` is 0 where it is not known beforehand."""

    def __call__(self, stage: str, done: int, total: int) -> None: ...  # noqa: D102


def silent(stage: str, done: int, total: int) -> None:
    """Ignore progress (the default)."""


class ProgressBar:
    """Progress bar for each stage, drawn by tqdm on standard error or, in a notebook, below the cell.

    Parameters
    ----------
    leave
        Whether the bars of finished stages stay visible.

    Examples
    --------
    >>> import bispectral_ot as bot
    >>> source, target = bot.split_halves(bot.load("digits"), per_class=10)
    >>> bot.match(source, target, progress=bot.ProgressBar()).converged
    True
    """

    def __init__(self, *, leave: bool = True) -> None:
        self._leave = leave
        self._bars: dict[str, Any] = {}
        self._finished: set[str] = set()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Draw the bar of a stage; one that begins again, for the other side, gets a new bar."""
        finished = done >= total > 0
        if stage not in self._bars:
            if finished and stage in self._finished:
                return
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about missing ipywidgets: the bar is then text
                from tqdm.auto import tqdm
            self._bars[stage] = tqdm(desc=stage, total=total or None, leave=self._leave)
        bar = self._bars[stage]
        bar.total = total or None
        bar.update(max(0, done - bar.n))
        if finished:
            self._finished.add(stage)
            self._bars.pop(stage).close()
        else:
            self._finished.discard(stage)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        for bar in self._bars.values():
            bar.close()
        self._bars.clear()
