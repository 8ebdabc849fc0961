"""The verbs ``datasets list``, ``datasets fetch`` and ``datasets show``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table

from bispectral_ot.errors import DatasetError, InputError
from bispectral_ot.progress import Progress

app = typer.Typer(no_args_is_help=True, help="Name, fetch and look at datasets.")

_MOST_CLASSES = 60  # as many rows as a contact sheet and a table can bear


@app.command("list")
def list_sets() -> None:
    """List the datasets that have a name, and where each would come from now.

    Example: bispectral-ot datasets list
    """
    from bispectral_ot.datasets.catalogue import available, place

    table = Table(box=None, header_style="bold")
    for title in ("name", "content", "train", "test", "size", "classes", "place"):
        table.add_column(title, justify="right" if title in ("train", "test", "classes") else "left")
    for known in available():
        table.add_row(
            known.name,
            known.title,
            f"{known.counts['train']:,}",
            f"{known.counts['test']:,}" if "test" in known.counts else "-",
            "x".join(map(str, known.size)),
            str(len(known.classes)),
            place(known.name),
        )
    _console().print(table)


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Names from `datasets list`.")],
) -> None:
    """Download the official files of the named datasets into the cache of this machine.

    Files that are there already and whole are not downloaded again.

    Example: bispectral-ot datasets fetch mnist fashion-mnist
    """
    from bispectral_ot.datasets.bundled import BUNDLED
    from bispectral_ot.datasets.catalogue import suggest
    from bispectral_ot.datasets.fetch import fetch as fetch_files
    from bispectral_ot.datasets.official import OFFICIAL

    unknown = [name for name in names if name not in OFFICIAL and name not in BUNDLED]
    if unknown:
        raise DatasetError(f"{unknown[0]!r} is not a known dataset. {suggest(unknown[0])}")
    for name in names:
        if name in BUNDLED:
            _console().print(f"{name}: comes with {BUNDLED[name].package}, nothing to fetch")
            continue
        with _progress_bars() as progress:
            folder = fetch_files(OFFICIAL[name], progress=progress)
        _console().print(f"{name}: in {folder}", soft_wrap=True)


@app.command()
def show(
    source: Annotated[
        str, typer.Argument(metavar="NAME_OR_PATH", help="A named dataset, a folder or a file.")
    ],
    split: Annotated[str, typer.Option(help="train or test, where the source has both.")] = "train",
    root: Annotated[Path | None, typer.Option(help="Folder that has the official IDX files.")] = None,
    resize: Annotated[str | None, typer.Option(help="Bring images to this size: 32 or 32x48.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write a contact sheet, a row per class, as PNG.")] = None,
    per_class: Annotated[int, typer.Option(min=1, help="Images per class on the contact sheet.")] = 10,
) -> None:
    """Say what a dataset holds: size, type of the pixels, classes and their counts.

    Example: bispectral-ot datasets show digits --out digits.png
    """
    from bispectral_ot.datasets import load

    if out is not None and out.suffix.lower() != ".png":
        raise InputError(f"--out writes a PNG picture, but {out} does not end with .png.")
    with _progress_bars() as progress:
        dataset = load(source, split=split, root=root, resize=resize, progress=progress)
    images = dataset.images
    facts = Table(box=None, show_header=False)
    for title, value in {
        "name": dataset.name,
        "images": f"{len(dataset):,}",
        "size": "x".join(map(str, images.shape[1:])),
        "pixels": f"{images.dtype}, {images.min():g} to {images.max():g}",
        "classes": str(len(dataset.classes)) if dataset.classes else "no labels",
    }.items():
        facts.add_row(title, value)
    _console().print(facts)
    if dataset.classes:
        counts = Table(box=None, header_style="bold")
        counts.add_column("class")
        counts.add_column("images", justify="right")
        for name, count in list(zip(dataset.classes, dataset.class_counts, strict=True))[:_MOST_CLASSES]:
            counts.add_row(name, f"{count:,}")
        if len(dataset.classes) > _MOST_CLASSES:
            counts.add_row(f"and {len(dataset.classes) - _MOST_CLASSES} more classes", "")
        _console().print(counts)
    if out is not None:
        rows = [np.arange(len(dataset))[:per_class]]
        if dataset.labels is not None:
            rows = [np.flatnonzero(dataset.labels == c)[:per_class] for c in range(len(dataset.classes))]
        names = list(dataset.classes) or [dataset.name]
        _draw_sheet([images[row] for row in rows[:_MOST_CLASSES]], names[:_MOST_CLASSES], out)
        _console().print(f"contact sheet: {out}", soft_wrap=True)


def _draw_sheet(
    rows: list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]], names: list[str], out: Path
) -> None:
    """Draw one row of images per class into ``out``; the file appears only when it is whole."""
    from matplotlib.figure import Figure

    lowest = min(float(row.min()) for row in rows if len(row))
    highest = max(float(row.max()) for row in rows if len(row))
    height, width = rows[0].shape[1:3]
    columns = max(len(row) for row in rows)
    sheet = np.zeros((len(rows) * height, columns * width, *rows[0].shape[3:]))
    for i, row in enumerate(rows):
        for j, image in enumerate(row):
            sheet[i * height : (i + 1) * height, j * width : (j + 1) * width] = image - lowest
    if sheet.ndim == 3 and sheet.shape[2] != 3:
        sheet = sheet.mean(axis=2)  # neither grey nor colour: show the mean of the channels
    sheet /= max(highest - lowest, np.finfo(float).tiny)
    figure = Figure(
        figsize=(1.5 + 0.5 * columns * width / height, 0.3 + 0.5 * len(rows)), layout="constrained"
    )
    axes = figure.add_subplot()
    axes.imshow(sheet, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_yticks((np.arange(len(rows)) + 0.5) * height - 0.5, names)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    part = out.with_name(f".{out.name}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(part, format="png", dpi=150)
        os.replace(part, out)
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror or error}.") from None
    finally:
        with suppress(OSError):
            part.unlink()


def _console() -> Console:
    return Console(highlight=False)


@contextmanager
def _progress_bars() -> Iterator[Progress]:
    """A callback that draws one bar per stage on standard error, and nothing where that is no screen."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Bars(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage)
            bars.update(tasks[stage], completed=done, total=total or None)

        yield progress
