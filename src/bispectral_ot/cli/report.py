"""Command ``report``: a page for the browser, from the files of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bispectral_ot.cli.console import say, shown_warnings
from bispectral_ot.memory import format_bytes


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of match, compare, upright or demo.")],
) -> None:
    """Write RUN/report.html: an interactive page that needs no network.

    For a match: confusion of classes, images of every cell, a map of both sets,
    distances between classes and convergence. For a comparison: all distances,
    a tree, a map, and the images that contribute most to each distance.

    Example: bispectral-ot report runs/demo
    """
    from bispectral_ot.report.page import write_report

    with shown_warnings():
        path = write_report(run)
    say(f"{path} ({format_bytes(path.stat().st_size)})")
