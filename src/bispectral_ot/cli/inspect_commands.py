"""Commands ``report``, ``info``, ``datasets list``, ``datasets fetch`` and ``datasets show``."""

from __future__ import annotations

import importlib.metadata
import os
import re
import warnings
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from bispectral_ot.cli.command import Command, Group
from bispectral_ot.cli.console import print_facts, print_json, print_table, progress_bars, say, shown_warnings
from bispectral_ot.literals import Split
from bispectral_ot.memory import available_memory, format_bytes

datasets = typer.Typer(cls=Group, no_args_is_help=True, help="List, fetch and summarize datasets.")
_MOST_CLASSES = 60  # rows of a table
_VARIABLES = ("BISPECTRAL_OT_CACHE", "BISPECTRAL_OT_DATA", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "TMPDIR")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of match, compare, upright or demo.")],
    as_json: AsJson = False,
) -> None:
    """Write RUN/report.html: an interactive page that needs no network.

    For a match: confusion of classes, images of every cell, a map of both sets,
    distances between classes and convergence. For a comparison: all distances,
    a tree, a map, and the images that contribute most to each distance.

    Example: bispectral-ot report runs/demo
    """
    from bispectral_ot.report.page import write_report

    with shown_warnings() as told:
        path = write_report(run)
    if as_json:
        print_json({"report": str(path), "bytes": path.stat().st_size, "warnings": told})
    else:
        say(f"{path} ({format_bytes(path.stat().st_size)})")


def info(as_json: AsJson = False) -> None:
    """Show versions, threads, folders and extras, for bug reports.

    Example: bispectral-ot info
    """
    from bispectral_ot.files import cache_folder
    from bispectral_ot.runs import provenance

    origin = provenance()
    machine, free = origin["machine"], format_bytes(available_memory())
    found = {
        **{name: origin[name] for name in ("bispectral_ot", "python", "libraries")},
        "system": f"{machine['system']}, {machine['processor']}",
        "threads": machine["cores"],
        "memory": f"{free} of {format_bytes(machine['memory_bytes'])} are free",
        "cache": str(cache_folder("mnist").parent),
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        "extras": {name: "yes" if installed else "no" for name, installed in extras().items()},
    }
    if as_json:
        print_json(found)
        return
    for name in ("libraries", "variables", "extras"):
        found[name] = ", ".join(f"{each} {value}" for each, value in found[name].items()) or "none"
    print_facts({name.replace("_", "-"): value for name, value in found.items()})


def extras() -> dict[str, bool]:
    """Extras of this package, and whether all that they bring is installed."""
    found: dict[str, bool] = {}
    for line in importlib.metadata.requires("bispectral-ot") or ():
        extra = re.fullmatch(r"([\w.-]+).*extra == ['\"](\w+)['\"]", line)
        if extra:
            installed = any(importlib.metadata.distributions(name=extra[1]))
            found[extra[2]] = found.get(extra[2], True) and installed
    return found


@datasets.command("list", cls=Command)
def list_sets(as_json: AsJson = False) -> None:
    """List the named datasets and the place that each is read from.

    Example: bispectral-ot datasets list
    """
    from bispectral_ot.datasets.named_sets import available, place

    rows = []
    for known in available():
        counts = [f"{known.counts[split]:,}" if split in known.counts else "-" for split in ("train", "test")]
        size = "x".join(map(str, known.size))
        rows.append((known.name, known.title, *counts, size, len(known.classes), place(known.name)))
    header = ("name", "content", "train", "test", "size", "classes", "place")
    if as_json:
        print_json([dict(zip(header, row, strict=True)) for row in rows])
    else:
        print_table(header, rows, left=("name", "content", "size", "place"))


@datasets.command(cls=Command)
def fetch(names: Annotated[list[str], typer.Argument(metavar="NAME", help="Names from `datasets list`.")]) -> None:
    """Download the official files of named datasets to the cache folder.

    Complete files are not downloaded again.

    Example: bispectral-ot datasets fetch mnist fashion-mnist
    """
    from bispectral_ot.checks import check_choice
    from bispectral_ot.datasets.named_sets import NAMED
    from bispectral_ot.datasets.named_sets import fetch as fetch_files

    for known in [NAMED[check_choice("dataset", name, NAMED)] for name in names]:
        if not known.is_official:
            say(f"{known.name}: comes with {known.source}, nothing to fetch")
            continue
        with progress_bars():
            folder = fetch_files(known)
        say(f"{known.name}: in {folder}")


@datasets.command(cls=Command)
def show(
    source: Annotated[str, typer.Argument(metavar="NAME_OR_PATH", help="A named dataset, a folder or a file.")],
    split: Annotated[
        Split, typer.Option(metavar="train|val|test", help="Split of a dataset that has several.")
    ] = "train",
    root: Annotated[Path | None, typer.Option(metavar="PATH", help="Folder of the official IDX files.")] = None,
    resize: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Scale images to fit into this size: 32 or 32x48.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Summarize a dataset: sizes, modes, type of the pixels, classes and their counts.

    Example: bispectral-ot datasets show digits
    """
    import numpy as np

    from bispectral_ot.checks import parse_size
    from bispectral_ot.datasets.common_size import read_together, size_range
    from bispectral_ot.datasets.dataset import KINDS, check_flat
    from bispectral_ot.datasets.load import list_set

    with shown_warnings(), progress_bars():
        warnings.filterwarnings("ignore", "images .*(have different sizes|are reduced)")  # the table says it
        listing = list_set(source, split=split, root=root)
        if resize is not None:
            check_flat(listing, "--resize")
        headers = listing.headers()
        dataset = read_together([listing], size=None if resize is None else parse_size(resize))[0]
    images, stored = dataset.images, {(info.height, info.width) for info in headers}
    modes = Counter(info.mode for info in headers).most_common() if len(headers) > 1 else []
    facts = {
        "name": dataset.name,
        KINDS[dataset.kind]: f"{len(dataset):,}",
        "size": (f"{size_range(stored)}, read at " if len(stored) > 1 else "") + dataset.size_in_words,
        **({"modes": ", ".join(f"{n:,} {mode}" for mode, n in modes)} if modes else {}),
        "coordinates" if dataset.kind == "clouds" else "pixels": (
            f"{images.dtype}, {np.nanmin(images):g} to {np.nanmax(images):g}"
        ),
        "classes": len(dataset.classes) if dataset.classes else "no labels",
    }
    if as_json:
        print_json(facts | {"counts": dict(zip(dataset.classes, dataset.class_counts.tolist(), strict=True))})
        return
    print_facts(facts)
    if dataset.classes:
        counts = [(name, f"{count:,}") for name, count in zip(dataset.classes, dataset.class_counts, strict=True)]
        print_table(("class", "images"), counts[:_MOST_CLASSES], left=["class"])
        if len(counts) > _MOST_CLASSES:
            say(f"and {len(counts) - _MOST_CLASSES} more classes")
