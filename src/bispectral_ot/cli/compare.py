"""The verb ``compare``: distances between any number of sets."""

from __future__ import annotations

import time
import warnings
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from bispectral_ot.choices import Split, Symmetry
from bispectral_ot.cli.config import ConfigFile
from bispectral_ot.cli.console import output, progress_bars, say, shown_warnings
from bispectral_ot.cli.options import (
    COMPARISON,
    IMAGES,
    OUTPUT,
    AsJson,
    Center,
    Components,
    CostStorage,
    FeatureMetric,
    Features,
    Figures,
    Grey,
    Quiet,
    Report,
    Resize,
    Root,
    Scheduler,
    WorkingMemory,
)
from bispectral_ot.errors import DataWarning, InputError

if TYPE_CHECKING:
    from bispectral_ot.datasets import Dataset
    from bispectral_ot.datasets.listing import Listing
    from bispectral_ot.progress import Progress


_TESTS = "Tests"


def compare(
    sets: Annotated[
        list[str],
        typer.Argument(
            metavar="A B ...",
            help="Two sets or more: names from `datasets list`, folders of images, .npz, .npy or IDX files; "
            "NAME=PATH gives a set a name.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="RUN", help="Folder for the run; one that was interrupted goes on.")],
    symmetry: Annotated[
        Symmetry | None,
        typer.Option(
            help="What not to see.",
            show_default="that of the features, else rotation",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
    features: Features = None,
    metric: FeatureMetric = None,
    labels: Annotated[
        bool,
        typer.Option("--labels", help="Add the distance between classes to the cost.", rich_help_panel=COMPARISON),
    ] = False,
    gaussian_classes: Annotated[
        bool,
        typer.Option(
            "--gaussian-classes",
            help="Like --labels, with classes taken for Gaussian distributions.",
            rich_help_panel=COMPARISON,
        ),
    ] = False,
    marginals: Annotated[
        Literal["balanced", "relaxed"],
        typer.Option(
            help="relaxed lets mass without a counterpart stay behind: less of the distance is due to other shares.",
            rich_help_panel=COMPARISON,
        ),
    ] = "balanced",
    pca: Components = None,
    reg: Annotated[
        float | None,
        typer.Option(
            help="Regularisation, relative to the largest cost within a set; 0 for exact transport of small sets.",
            show_default="0.13",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
    permutations: Annotated[
        int,
        typer.Option(min=0, help="Of a permutation test for each pair; 199 is a good number.", rich_help_panel=_TESTS),
    ] = 0,
    bootstrap: Annotated[
        int, typer.Option(min=0, help="Resamplings for an interval of each distance.", rich_help_panel=_TESTS)
    ] = 0,
    level: Annotated[float, typer.Option(help="Of tests and intervals.", rich_help_panel=_TESTS)] = 0.05,
    test_images: Annotated[
        int, typer.Option(min=2, help="Images of each set at most that tests look at.", rich_help_panel=_TESTS)
    ] = 2000,
    contrast: Annotated[
        bool,
        typer.Option(
            "--contrast",
            help="Changed, or merely moved? Test each pair by pixels and up to each symmetry.",
            rich_help_panel=_TESTS,
        ),
    ] = False,
    split: Annotated[
        Split, typer.Option(help="Which part of the sets that have several.", rich_help_panel=IMAGES)
    ] = "train",
    root: Root = None,
    resize: Resize = None,
    grey: Grey = False,
    center: Center = False,
    limit: Annotated[
        int | None,
        typer.Option(min=2, help="Use so many images of each set, drawn at random.", rich_help_panel=IMAGES),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything random.", rich_help_panel=IMAGES)] = 0,
    working_memory: WorkingMemory = None,
    storage: CostStorage = None,
    scheduler: Scheduler = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Compute again what the folder has of other sets or options.", rich_help_panel=OUTPUT
        ),
    ] = False,
    report: Report = False,
    figures: Figures = True,
    as_json: AsJson = False,
    quiet: Quiet = False,
    config_file: ConfigFile = None,
) -> None:
    """Measure distances between sets: 0 for a set and itself, and what sampling alone would give for comparison.

    Example: bispectral-ot compare monday/ tuesday/ wednesday/ --permutations 199 --out runs/week

    Example: bispectral-ot compare before=old/ after=new/ --contrast --report --out runs/changed

    Example: bispectral-ot compare mnist kmnist fashion-mnist --limit 2000 --labels --out runs/three

    Pairs are saved as they end; started again, it goes on where it was.

    RUN gets distances.csv, contributors.csv (the images that explain a distance),
    classes.csv, figures, results.json, run.json, and the saved pairs in cells/.
    """
    config = {"verb": "compare"} | locals()
    del config["config_file"]
    from bispectral_ot.comparing.store import FolderStore, fingerprints
    from bispectral_ot.engines.cluster import connected
    from bispectral_ot.files import to_json
    from bispectral_ot.report.comparison_folder import OUTPUTS, write_comparison
    from bispectral_ot.runs import check_resumable, resumed_run

    options = _check_options(config)
    check_resumable(out, verb="compare", outputs=("cells", "report.html", *OUTPUTS))
    with shown_warnings() as shown, connected(scheduler) as engine, progress_bars(quiet=quiet) as progress:
        start = time.perf_counter()
        datasets = _read_sets(config, progress)
        loading = time.perf_counter() - start
        recipe = {
            "sets": dict(zip(datasets, fingerprints(list(datasets.values())), strict=True)),
            "options": {name: value for name, value in options.items() if name not in ("working_memory", "storage")},
        }
        options["client"] = engine
        store = FolderStore(out / "cells", recipe, overwrite=overwrite)  # refused before run.json is written
        with resumed_run(out, config):
            content = _compare_sets(out, datasets, options, config, loading, store, shown, progress, write_comparison)
        if report:
            from bispectral_ot.report.html import write_report

            write_report(out)
    if as_json:
        typer.echo(to_json({"run": str(out), **content}))
    elif not quiet:
        _print(content, out)
    if not content["converged"]:
        raise typer.Exit(1)


def _check_options(config: dict[str, Any]) -> dict[str, Any]:
    """Options for the library; whatever is wrong with them is said before any work is done."""
    from bispectral_ot.comparing.compare import DEFAULT_REG, as_transport, check_repeats
    from bispectral_ot.datasets.resize import parse_size
    from bispectral_ot.memory import parse_bytes
    from bispectral_ot.spaces import choose_features

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the comparison says it
        choose_features(config["features"], symmetry=config["symmetry"], metric=config["metric"])
    if len(config["sets"]) < 2:
        raise InputError("at least two sets are needed for a comparison; give their names or paths.")
    check_repeats(config["permutations"], config["bootstrap"], config["level"])
    reg = DEFAULT_REG if config["reg"] is None else config["reg"]
    as_transport(reg, marginals=config["marginals"])
    if config["working_memory"] is not None:
        parse_bytes(config["working_memory"])
    if config["resize"] is not None:
        parse_size(config["resize"])
    names = ("symmetry", "features", "metric", "marginals", "pca", "permutations", "bootstrap", "level", "test_images")
    return {
        "reg": reg,
        "labels": "gaussian" if config["gaussian_classes"] else config["labels"],
        **{name: config[name] for name in (*names, "seed", "working_memory", "storage")},
    }


def _read_sets(config: dict[str, Any], progress: Progress) -> dict[str, Dataset]:
    """All sets as they are compared, by their names."""
    import numpy as np

    from bispectral_ot.datasets import center
    from bispectral_ot.datasets.dataset import check_flat
    from bispectral_ot.datasets.load import drawn, list_set
    from bispectral_ot.datasets.resize import parse_size
    from bispectral_ot.datasets.together import read_together

    found: dict[str, Listing] = {}
    known: dict[str, Listing] = {}
    for word in config["sets"]:
        title, given, path = word.partition("=")
        if not given or Path(word).exists():
            title, path = "", word
        if path not in known:
            known[path] = list_set(
                path, split=config["split"], root=config["root"], seed=config["seed"], progress=progress
            )
        name = title or known[path].name
        if name in found:
            raise InputError(f"two sets are called {name!r}; name them, as in first={path}.")
        found[name] = known[path]
    size = None if config["resize"] is None else parse_size(config["resize"])
    if config["grey"] or size is not None:
        for listing in found.values():
            check_flat(listing, "--resize and --grey")
    places = [np.arange(len(listing)) for listing in found.values()]
    if config["limit"] is not None:
        places = [
            drawn(each, config["limit"], seed=config["seed"], stream=number) for number, each in enumerate(places)
        ]
    datasets = read_together(list(found.values()), places, size=size, grey=config["grey"], progress=progress)
    if config["center"]:
        datasets = [center(dataset, progress=progress) for dataset in datasets]
    return dict(zip(found, datasets, strict=True))


def _compare_sets(
    out: Path,
    datasets: dict[str, Dataset],
    options: dict[str, Any],
    config: dict[str, Any],
    loading: float,
    store: Any,
    shown: list[str],
    progress: Progress,
    write_comparison: Any,
) -> dict[str, Any]:
    """Compare, write the folder, and return the content of ``results.json``."""
    from dataclasses import replace

    from bispectral_ot.comparing import compare as compare_sets
    from bispectral_ot.comparing import contrast as contrast_sets

    found = compare_sets(datasets, done=store, progress=progress, **options)
    contrasts = []
    if config["contrast"]:
        for (i, one), (j, other) in combinations(enumerate(datasets), 2):
            sides = [replace(datasets[name], name=name) for name in (one, other)]
            done = store.within(f"contrast-{i}-{j}")
            permutations = config["permutations"] or 199
            chosen = {name: options[name] for name in ("level", "test_images", "seed", "working_memory", "client")}
            contrasts.append(contrast_sets(*sides, permutations=permutations, done=done, progress=progress, **chosen))
    found = replace(found, seconds={"load": loading, **found.seconds})
    asked = {name: config[name] for name in ("limit", "center", "resize", "grey", "split")}
    found = replace(found, settings=found.settings | asked)
    extra = {"warnings": shown}
    return dict(
        write_comparison(
            out,
            found,
            list(datasets.values()),
            contrasts=contrasts,
            draw=config["figures"],
            extra=extra,
            progress=progress,
        )
    )


def _print(content: dict[str, Any], out: Path) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("sets", "distance", "error", "one population", "ratio", "p"):
        table.add_column(title, justify="left" if title == "sets" else "right")
    for row in content["pairs"]:
        p = "" if row["p_value"] is None else f"{row['p_value']:.3g}"
        figures = [f"{row['distance']:.4g}", f"{row['error']:.0e}", f"{row['reference']:.4g}", f"{row['ratio']:.3g}", p]
        table.add_row(Text(f"{row['source']}, {row['target']}"), *figures)
    output.print(table)
    for found in content["contrasts"]:
        say(found["sentence"])
    say(f"run folder: {out}")
