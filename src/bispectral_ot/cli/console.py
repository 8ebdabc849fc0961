"""What the program shows: results on standard output; progress, warnings and errors on standard error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
)
from rich.text import Text

from bispectral_ot.errors import DataWarning, NotConvergedWarning
from bispectral_ot.progress import Progress as ProgressCallback
from bispectral_ot.progress import silent

STAGE = "stage: "  # how such a line begins
output = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """Print a line of results as it is, however long, so that paths can be copied."""
    output.print(text, soft_wrap=True, markup=False)


def complain(kind: str, message: str) -> None:
    """Print ``kind: message`` on standard error, in one line."""
    line = Text.assemble((f"{kind}: ", "bold red" if kind == "error" else "bold yellow"), message)
    errors.print(line, soft_wrap=True)


@contextmanager
def shown_warnings() -> Iterator[list[str]]:
    """Show the library's warnings once each, in plain words, and nobody else's; gives the list of them."""
    shown: list[str] = []

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in shown:
            shown.append(str(message))
            complain("warning", str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for category in (DataWarning, NotConvergedWarning):
            warnings.simplefilter("always", category)
        warnings.showwarning = show
        yield shown


@contextmanager
def progress_bars(*, quiet: bool = False) -> Iterator[ProgressCallback]:
    """A progress callback that draws one bar per stage while the block runs; off a terminal, a line per stage."""
    if quiet:
        yield silent
        return
    if not errors.is_terminal:
        yield _lines()
        return
    columns = (
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description:<26}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        _TimeLeft(),
    )
    with Progress(*columns, console=errors, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total or None)
            elif bars.tasks[tasks[stage]].finished and done < total:
                bars.reset(tasks[stage])  # the stage begins again, for the other side
            bars.update(tasks[stage], completed=done, total=total or None)

        yield show


def _lines() -> ProgressCallback:
    """Print a line when a stage begins, for logs."""
    begun: set[str] = set()

    def show(stage: str, done: int, total: int) -> None:
        if stage not in begun:
            begun.add(stage)
            errors.print(Text(f"{STAGE}{stage}{f' ({total:,})' if total > 1 else ''}"), soft_wrap=True)

    return show


class _TimeLeft(ProgressColumn):
    """``0:12 left`` while a stage runs and can be foreseen, ``0:07`` when it is done."""

    def render(self, task: Task) -> Text:
        """Draw one cell."""
        if task.finished:
            return Text(_clock(task.finished_time or 0.0), style="progress.elapsed")
        if task.time_remaining is None:
            return Text(f"{_clock(task.elapsed or 0.0)} so far", style="progress.elapsed")
        return Text(f"{_clock(task.time_remaining)} left", style="progress.remaining")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
