"""The verbs ``datasets list``, ``datasets fetch`` and ``datasets show``."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from bispectral_ot.choices import Split
from bispectral_ot.cli.console import output, progress_bars, say, shown_warnings
from bispectral_ot.errors import DatasetError, InputError

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
    output.print(table)


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Names from `datasets list`.")],
) -> None:
    """Download the official files of the named datasets into the cache of this machine.

    Files that are there already and whole are not downloaded again.

    Example: bispectral-ot datasets fetch mnist fashion-mnist
    """
    from bispectral_ot.checks import advise
    from bispectral_ot.datasets.bundled import BUNDLED
    from bispectral_ot.datasets.fetch import fetch as fetch_files
    from bispectral_ot.datasets.official import OFFICIAL

    unknown = [name for name in names if name not in OFFICIAL and name not in BUNDLED]
    if unknown:
        raise DatasetError(f"{unknown[0]!r} is not a known dataset; {advise(unknown[0], (*OFFICIAL, *BUNDLED))}")
    for name in names:
        if name in BUNDLED:
            say(f"{name}: comes with {BUNDLED[name].package}, nothing to fetch")
            continue
        with progress_bars() as progress:
            folder = fetch_files(OFFICIAL[name], progress=progress)
        say(f"{name}: in {folder}")


@app.command()
def show(
    source: Annotated[str, typer.Argument(metavar="NAME_OR_PATH", help="A named dataset, a folder or a file.")],
    split: Annotated[Split, typer.Option(help="Which part, where the source has several.")] = "train",
    root: Annotated[Path | None, typer.Option(help="Folder that has the official IDX files.")] = None,
    resize: Annotated[str | None, typer.Option(help="Scale images to fit into this size: 32 or 32x48.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write a contact sheet, a row per class, as PNG.")] = None,
    per_class: Annotated[int, typer.Option(min=1, help="Images per class on the contact sheet.")] = 10,
) -> None:
    """Say what a dataset holds: sizes, modes, type of the pixels, classes and their counts.

    Example: bispectral-ot datasets show digits --out digits.png
    """
    import numpy as np

    from bispectral_ot.datasets.dataset import KINDS, check_flat
    from bispectral_ot.datasets.load import list_set
    from bispectral_ot.datasets.resize import parse_size
    from bispectral_ot.datasets.together import read_together, size_range

    if out is not None and out.suffix.lower() != ".png":
        raise InputError(f"--out writes a PNG picture, but {out} does not end with .png.")
    with shown_warnings(), progress_bars() as progress:
        warnings.filterwarnings("ignore", "images have different sizes")  # the table says it
        listing = list_set(source, split=split, root=root, progress=progress)
        if resize is not None:
            check_flat(listing, "--resize")
        places = np.arange(len(listing))
        looks = listing.content.looks(places, progress) if listing.kind == "images" else []
        size = None if resize is None else parse_size(resize)
        dataset = read_together([listing], size=size, progress=progress)[0]
    images = dataset.images
    stored = {(look.height, look.width) for look in looks}
    modes = Counter(look.mode for look in looks)
    facts = Table(box=None, show_header=False)
    for title, value in {
        "name": dataset.name,
        KINDS[dataset.kind]: f"{len(dataset):,}",
        "size": dataset.size_in_words if len(stored) < 2 else f"{size_range(stored)}, read at {dataset.size_in_words}",
        **({"modes": ", ".join(f"{n:,} {mode}" for mode, n in modes.most_common())} if len(looks) > 1 else {}),
        "coordinates" if dataset.kind == "clouds" else "pixels": (
            f"{images.dtype}, {np.nanmin(images):g} to {np.nanmax(images):g}"
        ),
        "classes": str(len(dataset.classes)) if dataset.classes else "no labels",
    }.items():
        facts.add_row(title, Text(value))  # a set or a class may be called [bold]
    output.print(facts)
    if dataset.classes:
        counts = Table(box=None, header_style="bold")
        counts.add_column("class")
        counts.add_column("images", justify="right")
        for name, count in list(zip(dataset.classes, dataset.class_counts, strict=True))[:_MOST_CLASSES]:
            counts.add_row(Text(name), f"{count:,}")
        if len(dataset.classes) > _MOST_CLASSES:
            counts.add_row(f"and {len(dataset.classes) - _MOST_CLASSES} more classes", "")
        output.print(counts)
    if out is not None:
        from bispectral_ot.datasets.pictures import Pictures
        from bispectral_ot.report.figures import contact_sheet
        from bispectral_ot.report.style import save

        rows = [np.arange(len(dataset))[:per_class]]
        if dataset.labels is not None:
            rows = [np.flatnonzero(dataset.labels == c)[:per_class] for c in range(len(dataset.classes))]
        names = list(dataset.classes) or [dataset.name]
        pictures = Pictures(dataset)
        shown = [
            np.array([pictures[i] for i in row]).reshape(len(row), *pictures[0].shape) for row in rows[:_MOST_CLASSES]
        ]
        sheet = contact_sheet(shown, names[:_MOST_CLASSES])
        try:
            save(sheet, out, kinds=("png",))
        except OSError as error:
            raise InputError(f"cannot write {out}: {error.strerror or error}.") from None
        say(f"contact sheet: {out}")
