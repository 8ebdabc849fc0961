"""Commands ``report``, ``info``, ``datasets list``, ``datasets fetch`` and ``datasets show``."""

import os
from pathlib import Path
from typing import Annotated

import typer

from bispectral_ot.checks import Split
from bispectral_ot.cli.command import Command, Group
from bispectral_ot.cli.console import print_facts, print_json, print_table, progress_bars, say, shown_warnings
from bispectral_ot.memory import available_memory, format_bytes

datasets = typer.Typer(cls=Group, no_args_is_help=True, help="List, fetch and summarize datasets.")
AsJson = Annotated[bool, typer.Option("--json", help="Print results as JSON and nothing else.")]


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder of match, compare, upright or demo.")],
    as_json: AsJson = False,
) -> None:
    """Write RUN/report.html, the interactive page of a run. It needs no network (docs/report.md).

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
    """Show versions, threads, memory and folders, for bug reports.

    Example: bispectral-ot info
    """
    from bispectral_ot.files import cache_folder
    from bispectral_ot.runs import provenance

    origin, names = provenance(), ("BISPECTRAL_OT_CACHE", "BISPECTRAL_OT_DATA", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS")
    machine, free = origin["machine"], format_bytes(available_memory())
    found = {
        **{name: origin[name] for name in ("bispectral_ot", "python", "libraries")},
        "system": f"{machine['system']}, {machine['processor']}",
        "threads": machine["cores"],
        "memory": f"{free} of {format_bytes(machine['memory_bytes'])} are free",
        "cache": str(cache_folder("mnist").parent),
        "variables": {name: os.environ[name] for name in (*names, "TMPDIR") if name in os.environ},
    }
    if as_json:
        print_json(found)
        return
    for name in ("libraries", "variables"):
        found[name] = ", ".join(f"{each} {value}" for each, value in found[name].items()) or "none"
    print_facts({name.replace("_", "-"): value for name, value in found.items()})


@datasets.command("list", cls=Command)
def list_sets(as_json: AsJson = False) -> None:
    """List the named datasets and where each is read from.

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
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Names from `datasets list`.")],
    as_json: AsJson = False,
) -> None:
    """Download the official files of named datasets to the cache folder, unless it has them.

    Example: bispectral-ot datasets fetch mnist fashion-mnist
    """
    from bispectral_ot.checks import check_choice
    from bispectral_ot.datasets.named_sets import NAMED
    from bispectral_ot.datasets.named_sets import fetch as fetch_files

    places = {}
    for known in [NAMED[check_choice("dataset", name, NAMED)] for name in names]:
        places[known.name] = f"comes with {known.source}, nothing to fetch"
        if known.mirrors:
            with progress_bars(quiet=as_json):
                places[known.name] = f"in {fetch_files(known)}"
        if not as_json:
            say(f"{known.name}: {places[known.name]}")
    if as_json:
        print_json(places)


@datasets.command(cls=Command)
def show(
    source: Annotated[str, typer.Argument(metavar="NAME_OR_PATH", help="A named dataset, a folder or a file.")],
    split: Annotated[
        Split, typer.Option(metavar="train|val|test", help="Split of a dataset that has several.")
    ] = "train",
    as_json: AsJson = False,
) -> None:
    """Summarize a dataset: number and size of the images, type of the pixels, classes and their counts.

    Example: bispectral-ot datasets show digits
    """
    import numpy as np

    from bispectral_ot.datasets import load
    from bispectral_ot.datasets.dataset import KINDS

    with shown_warnings(), progress_bars():
        dataset = load(source, split=split)
    images, counts = dataset.images, dict(zip(dataset.classes, dataset.class_counts.tolist(), strict=True))
    facts = {
        "name": dataset.name,
        KINDS[dataset.kind]: f"{len(dataset):,}",
        "size": dataset.size_in_words,
        "values": f"{images.dtype}, {np.nanmin(images):g} to {np.nanmax(images):g}",
        "classes": len(counts) or "no labels",
    }
    if as_json:
        print_json(facts | {KINDS[dataset.kind]: len(dataset), "counts": counts})
        return
    print_facts(facts)
    if counts:
        print_table(("class", "images"), [(name, f"{count:,}") for name, count in counts.items()], left=["class"])
