"""The verb ``report``: a page for the browser, made from what a run has kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bispectral_ot.cli.console import say, shown_warnings
from bispectral_ot.memory import format_bytes


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that match, compare, demo or study has written.")],
) -> None:
    """Write RUN/report.html: one page that opens in a browser and needs no network.

    It shows which classes flow into which, the images behind every cell, a
    map of both sets, distances between classes and the solver's convergence;
    of a comparison, all distances, a tree, a map, and what explains each pair.

    Example: bispectral-ot report runs/demo
    """
    from bispectral_ot.report.html import write_report

    with shown_warnings():
        path = write_report(run)
    say(f"{path} ({format_bytes(path.stat().st_size)})")
