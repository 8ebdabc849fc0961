"""Commands ``datasets list``, ``datasets fetch`` and ``datasets show``."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from bispectral_ot.cli.command import Command
from bispectral_ot.cli.console import print_facts, print_table, progress_bars, say, shown_warnings
from bispectral_ot.errors import DatasetError, InputError
from bispectral_ot.literals import Split

app = typer.Typer(no_args_is_help=True, help="List, fetch and summarize datasets.")

_MOST_CLASSES = 60  # rows of a contact sheet and of a table


@app.command("list", cls=Command)
def list_sets() -> None:
    """List the named datasets and the place that each is read from.

    Example: bispectral-ot datasets list
    """
    from bispectral_ot.datasets.named_sets import available, place

    rows = [
        (
            known.name,
            known.title,
            f"{known.counts['train']:,}",
            f"{known.counts['test']:,}" if "test" in known.counts else "-",
            "x".join(map(str, known.size)),
            len(known.classes),
            place(known.name),
        )
        for known in available()
    ]
    header = ("name", "content", "train", "test", "size", "classes", "place")
    print_table(header, rows, left=("name", "content", "size", "place"))


@app.command(cls=Command)
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Names from `datasets list`.")],
) -> None:
    """Download the official files of named datasets to the cache folder.

    Complete files are not downloaded again.

    Example: bispectral-ot datasets fetch mnist fashion-mnist
    """
    from bispectral_ot.checks import advise
    from bispectral_ot.datasets.named_sets import NAMED
    from bispectral_ot.datasets.named_sets import fetch as fetch_files

    unknown = [name for name in names if name not in NAMED]
    if unknown:
        raise DatasetError(f"{unknown[0]!r} is not a known dataset; {advise(unknown[0], NAMED)}")
    for name in names:
        if not NAMED[name].is_official:
            say(f"{name}: comes with {NAMED[name].source}, nothing to fetch")
            continue
        with progress_bars():
            folder = fetch_files(NAMED[name])
        say(f"{name}: in {folder}")


@app.command(cls=Command)
def show(
    source: Annotated[str, typer.Argument(metavar="NAME_OR_PATH", help="A named dataset, a folder or a file.")],
    split: Annotated[Split, typer.Option(help="Split of a dataset that has several.")] = "train",
    root: Annotated[Path | None, typer.Option(help="Folder of the official IDX files.")] = None,
    resize: Annotated[str | None, typer.Option(help="Scale images to fit into this size: 32 or 32x48.")] = None,
    out: Annotated[Path | None, typer.Option(help="PNG file for a contact sheet, a row per class.")] = None,
    per_class: Annotated[int, typer.Option(min=1, help="Images per class on the contact sheet.")] = 10,
) -> None:
    """Summarize a dataset: sizes, modes, type of the pixels, classes and their counts.

    Example: bispectral-ot datasets show digits --out digits.png
    """
    import numpy as np

    from bispectral_ot.checks import parse_size
    from bispectral_ot.datasets.common_size import read_together, size_range
    from bispectral_ot.datasets.dataset import KINDS, check_flat
    from bispectral_ot.datasets.load import list_set

    if out is not None and out.suffix.lower() != ".png":
        raise InputError(f"--out writes a PNG picture, but {out} does not end with .png.")
    with shown_warnings(), progress_bars():
        warnings.filterwarnings("ignore", "images .*(have different sizes|are reduced)")  # the table says it
        listing = list_set(source, split=split, root=root)
        if resize is not None:
            check_flat(listing, "--resize")
        headers = listing.headers()
        size = None if resize is None else parse_size(resize)
        dataset = read_together([listing], size=size)[0]
    images = dataset.images
    stored = {(info.height, info.width) for info in headers}
    modes = Counter(info.mode for info in headers)
    facts = {
        "name": dataset.name,
        KINDS[dataset.kind]: f"{len(dataset):,}",
        "size": dataset.size_in_words if len(stored) < 2 else f"{size_range(stored)}, read at {dataset.size_in_words}",
        **({"modes": ", ".join(f"{n:,} {mode}" for mode, n in modes.most_common())} if len(headers) > 1 else {}),
        "coordinates" if dataset.kind == "clouds" else "pixels": (
            f"{images.dtype}, {np.nanmin(images):g} to {np.nanmax(images):g}"
        ),
        "classes": len(dataset.classes) if dataset.classes else "no labels",
    }
    print_facts(facts)
    if dataset.classes:
        counts = [(name, f"{count:,}") for name, count in zip(dataset.classes, dataset.class_counts, strict=True)]
        print_table(("class", "images"), counts[:_MOST_CLASSES], left=["class"])
        if len(counts) > _MOST_CLASSES:
            say(f"and {len(counts) - _MOST_CLASSES} more classes")
    if out is not None:
        from bispectral_ot.datasets.pictures import Pictures
        from bispectral_ot.drawing import Tile, draw_tiles, fitted_axes, house_style, save, shortened

        rows = [np.arange(len(dataset))[:per_class]]
        if dataset.labels is not None:
            rows = [np.flatnonzero(dataset.labels == c)[:per_class] for c in range(len(dataset.classes))]
        names = list(dataset.classes) or [dataset.name]
        pictures = Pictures(dataset)
        shown = zip(names[:_MOST_CLASSES], rows, strict=False)
        tiles = [
            [Tile(pictures[i], "" if place else shortened(name, 11)) for place, i in enumerate(row)]
            for name, row in shown
        ]
        with house_style():
            figure = draw_tiles(fitted_axes(), tiles, title=shortened(dataset.name, 60)).figure
        try:
            save(figure, out.with_suffix(".png"))
        except OSError as error:
            raise InputError(f"cannot write {out}: {error.strerror or error}.") from None
        say(f"contact sheet: {out}")
