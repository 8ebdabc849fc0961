"""Progress of a study: bars over its cells, with the time left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bars

from bispectral_ot import runtime
from bispectral_ot.cli.console import errors


@contextmanager
def cell_bars(*, quiet: bool = False) -> Iterator[None]:
    """Two bars: cells with the time left, and the stage of the present cell; silent off a terminal."""
    if quiet or not errors.is_terminal:
        yield
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<14}"),
        BarColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Bars(*columns, console=errors, transient=True) as bars:
        cells = bars.add_task("cells", total=None, note="")
        present = bars.add_task("", total=None, note="")
        began: list[tuple[float, int]] = []

        def show(stage: str, done: int, total: int) -> None:
            if stage != "cells":
                bars.update(present, description=stage, completed=done, total=total or None)
                return
            began.append((time.monotonic(), done))
            bars.update(cells, completed=done, total=total, note=time_left(began, done, total))

        with runtime.running(progress=show):
            yield


def time_left(began: list[tuple[float, int]], done: int, total: int) -> str:
    """From the mean time of the cells of this session; those that were there before cost nothing."""
    (start, before), now = began[0], began[-1][0]
    if done == before:
        return f"{done} of {total}"
    left = round((now - start) / (done - before) * (total - done) / 60)
    return f"{done} of {total}, about {left // 60} h {left % 60:02} min left"
