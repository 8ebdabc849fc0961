"""What the program shows on a terminal: progress bars with time left, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bispectral_ot.progress import Progress as ProgressCallback
from bispectral_ot.progress import silent

errors = Console(stderr=True, highlight=False, soft_wrap=True)
output = Console(highlight=False)


@contextmanager
def progress_bars(*, quiet: bool = False) -> Iterator[ProgressCallback]:
    """A progress callback that draws one bar per stage while the block runs; silent off a terminal."""
    if quiet or not sys.stderr.isatty():
        yield silent
        return
    columns = (TextColumn("{task.description:22}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in tasks or bars.tasks[tasks[stage]].finished:
                tasks[stage] = bars.add_task(stage, total=total or None)
            bars.update(tasks[stage], completed=done, total=total or None)

        yield show
