"""The verb ``match``: pair the images of two datasets by content."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from bispectral_ot.choices import Intensity, Marginals, SolverName, Split, Symmetry
from bispectral_ot.cli.config import ConfigFile
from bispectral_ot.cli.console import output, progress_bars, shown_warnings
from bispectral_ot.cli.options import (
    COMPARISON,
    IMAGES,
    OUTPUT,
    SOLVER,
    AsJson,
    Center,
    Components,
    CostStorage,
    FeatureMetric,
    Features,
    Figures,
    Grey,
    NewRun,
    Quiet,
    Replace,
    Report,
    Resize,
    Root,
    Scheduler,
    WorkingMemory,
)
from bispectral_ot.errors import DataWarning, InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bispectral_ot.datasets import Dataset
    from bispectral_ot.datasets.listing import Listing
    from bispectral_ot.poses import Poses
    from bispectral_ot.progress import Progress
    from bispectral_ot.report.tables import ClassTable, Side

# What is done to the sides before they are compared.
_SIDE_OPTIONS = ("split_halves", "rotate_source", "center", "resize", "grey", "limit", "seed")
# What cannot be had of images that workers read.
_NEED_IMAGES = ("rotate_source", "center", "poses", "report")
_SET_HELP = (
    "A name from `datasets list`, a folder of images or of 3-D shapes, or a file: arrays (.npz, .npy, IDX, HDF5, "
    "Zarr), a .csv of paths and labels, and others (docs/files.md)"
)


def match(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=f"{_SET_HELP}; labels are optional.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The set to match it with, given likewise.")],
    out: NewRun,
    symmetry: Annotated[
        Symmetry | None,
        typer.Option(
            help="What not to see; rotation-reflection and d4 (quarter turns) include mirror images, "
            "rotation-translation is for content that is not centred, so3 for signals on the "
            "sphere, so3-shapes for shapes in 3-D.",
            show_default="that of the features, else rotation or, for shapes, so3-shapes",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
    features: Features = None,
    metric: FeatureMetric = None,
    intensity: Annotated[
        Intensity | None,
        typer.Option(
            help="Whether brightness and contrast count; for combined-bispectrum and local-bispectrum.",
            show_default="ignore",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
    pca: Components = None,
    marginals: Annotated[
        Marginals | None,
        typer.Option(
            help="Shares of the classes: balanced holds the target's, estimated finds those of the source by the "
            "target's labels, relaxed asks for none.",
            show_default="estimated if TARGET has labels, else relaxed",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
    normalize: Annotated[
        bool,
        typer.Option(help="Bring all pixels to mean 0 and deviation 1.", rich_help_panel=COMPARISON),
    ] = True,
    solver: Annotated[SolverName, typer.Option(help="How the plan is found.", rich_help_panel=SOLVER)] = "sinkhorn",
    reg: Annotated[
        float | None,
        typer.Option(
            help="Regularisation, as a share of the largest distance.",
            show_default="0.01",
            rich_help_panel=SOLVER,
        ),
    ] = None,
    tol: Annotated[
        float | None,
        typer.Option(help="Marginal error to reach.", show_default="1e-4, exact: 1e-9", rich_help_panel=SOLVER),
    ] = None,
    max_iter: Annotated[
        int | None,
        typer.Option(help="Passes (or updates) at most.", show_default="the solver's own", rich_help_panel=SOLVER),
    ] = None,
    source_split: Annotated[
        Split, typer.Option(help="Which part of the source, where it has several.", rich_help_panel=IMAGES)
    ] = "train",
    target_split: Annotated[
        Split, typer.Option(help="Which part of the target, where it has several.", rich_help_panel=IMAGES)
    ] = "train",
    root: Root = None,
    resize: Resize = None,
    grey: Grey = False,
    center: Center = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Use so many images of each side, drawn at random.", rich_help_panel=IMAGES),
    ] = None,
    split_halves: Annotated[
        bool,
        typer.Option(
            "--split-halves",
            help="Where SOURCE and TARGET are one set: compare two disjoint halves of it, class by class.",
            rich_help_panel=IMAGES,
        ),
    ] = False,
    rotate_source: Annotated[
        bool,
        typer.Option(
            "--rotate-source",
            help="For a trial: turn every source image by a random angle.",
            rich_help_panel=IMAGES,
        ),
    ] = False,
    seed: Annotated[
        int,
        typer.Option(
            min=0, help="Of --split-halves, --limit, --rotate-source and the examples shown.", rich_help_panel=IMAGES
        ),
    ] = 0,
    working_memory: WorkingMemory = None,
    storage: CostStorage = None,
    scheduler: Scheduler = None,
    poses: Annotated[
        bool,
        typer.Option("--poses", help="Say how each source is turned, in poses.csv.", rich_help_panel=OUTPUT),
    ] = False,
    top: Annotated[
        int, typer.Option(min=1, help="Best targets of each source in matches.csv.", rich_help_panel=OUTPUT)
    ] = 5,
    model: Annotated[
        bool,
        typer.Option(help="Keep what `predict` needs, in model.npz.", rich_help_panel=OUTPUT),
    ] = True,
    overwrite: Replace = False,
    report: Report = False,
    figures: Figures = True,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Say what would be done, with memory and time from a trial with 600 images; write nothing.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    config_file: ConfigFile = None,
) -> None:
    """Match the images of SOURCE with those of TARGET by content.

    Example: bispectral-ot match turned-photos/ catalogue/ --out runs/first

    Example: bispectral-ot match mnist-5k mnist-5k --split-halves --rotate-source --limit 900 --out runs/trial

    Example: bispectral-ot match cells/ atlas/ --symmetry rotation-reflection --center --out runs/cells

    Example: bispectral-ot match scanned-parts/ cad-models/ --out runs/parts

    Example: bispectral-ot match scans.npz mnist --features ring-bispectrum --metric l1 --out runs/paper

    Example: bispectral-ot match --config runs/first/run.json --out runs/again

    Example: bispectral-ot match survey.npz atlas.npz --scheduler tcp://head:8786 --out runs/survey

    RUN gets results.json (distance, convergence, settings, accuracy),
    run.json (versions, machine), figures, and these tables:

    matches.csv: a row for each source image and each of its best targets,
    with the share of the source's mass that goes there, and the distance;
    images count from 0.

    labels.csv: the label that each image gets from the other side, with its
    share of the mass: for the source, or for the target if only SOURCE has labels.
    For sources also the runner-up, label and distance of the nearest target, and a
    score for having a counterpart at all (a share of the targets are as far apart).

    unmatched.csv: images of both sides without counterpart, unless --marginals balanced.

    confusion.csv: where each source class went, if both sides have labels.

    poses.csv: with --poses, how each source has to be turned to stand like its targets.

    With --scheduler, RUN.solve.npz has the state of the solve until it ends: where the
    cluster is lost, the same command goes on from there. Folders and Zarr stores are
    read by the workers of tcp://..., which must see them under the same path; the run
    then has no figures, unmatched.csv and model.npz, unless --report or --poses asks
    for the images.
    """
    config = {"verb": "match"} | locals()
    del config["config_file"]
    start = time.perf_counter()
    options = check_options(config)
    if dry_run:
        _print_plan(config, options)
        return
    from bispectral_ot.engines.cluster import connected
    from bispectral_ot.files import to_json, write_json
    from bispectral_ot.runs import new_run, run_record

    with (
        shown_warnings() as told,
        connected(scheduler) as engine,
        new_run(out, verb="match", inputs=(source, target, root), overwrite=overwrite) as folder,
        progress_bars(quiet=quiet) as progress,
    ):
        options["client"] = engine
        if engine and solver == "sinkhorn":  # a run on a cluster that is lost goes on from here
            options["state"] = Path(f"{out}.solve.npz")
        reading = time.perf_counter()
        # what workers share with this machine is read by them, unless something is done to the images here
        here = engine is None or str(scheduler).startswith("local:") or any(config[name] for name in _NEED_IMAGES)
        sides = read_sides(config, progress, stay=not here)
        loading = time.perf_counter() - reading
        found = match_sides(folder, sides, options, config, loading, told, progress)
        record = run_record(config, seconds=time.perf_counter() - start)
        write_json(folder / "run.json", record | ({"cluster": engine.record()} if engine else {}))
        if report:
            from bispectral_ot.report.html import write_report

            write_report(folder)
    if as_json:
        typer.echo(to_json({"run": str(out), **found}))
    elif not quiet:
        print_match(found, out)
    if not found["converged"]:
        raise typer.Exit(1)


def _print_plan(config: dict[str, Any], options: dict[str, Any]) -> None:
    from bispectral_ot.cli.plan import plan_match, print_plan
    from bispectral_ot.files import to_json

    with shown_warnings(), progress_bars(quiet=config["quiet"]) as progress:
        plan = plan_match(config, options, progress)
    if config["as_json"]:
        typer.echo(to_json(plan))
    else:
        print_plan(plan)


def check_options(config: dict[str, Any]) -> dict[str, Any]:
    """Options for the library; whatever is wrong with them is said before any work is done."""
    from bispectral_ot.datasets.resize import parse_size
    from bispectral_ot.memory import parse_bytes
    from bispectral_ot.runs import check_free
    from bispectral_ot.spaces import choose_features
    from bispectral_ot.transport import SOLVERS

    inputs = [config[name] for name in ("source", "target", "root")]
    check_free(config["out"], verb=config["verb"], inputs=inputs, overwrite=config["overwrite"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the match says it
        choice = choose_features(
            config["features"],
            symmetry=config["symmetry"],
            metric=config["metric"],
            intensity=config.get("intensity"),
        )
    if config["split_halves"] and not is_one_set(config):
        raise InputError(
            "--split-halves is for one set on both sides; give the same SOURCE and TARGET, or leave it out."
        )
    if config["poses"] and choice.symmetry in (None, "none"):
        raise InputError(
            f"the features {choice.name} have no symmetry, so that pairs have no turn between them; leave --poses "
            "out, or take --symmetry rotation."
        )
    if str(_symmetry(config)).startswith("so3"):
        plane = [option for option in ("rotate_source", "center", "resize") if config[option]]
        if plane:
            raise InputError(
                f"--{plane[0].replace('_', '-')} is for flat images, not for spheres or shapes in 3-D; leave it out."
            )
    if config["working_memory"] is not None:
        parse_bytes(config["working_memory"])
    if config["resize"] is not None:
        parse_size(config["resize"])
    if config["solver"] == "exact" and config["reg"] is not None:
        raise InputError("--reg has no meaning for --solver exact, which does not regularise; leave it out.")
    given = {name: config[name] for name in ("reg", "tol", "max_iter") if config[name] is not None}
    return {
        "solver": SOLVERS[config["solver"]](**given),
        **{name: config[name] for name in ("symmetry", "features", "metric", "normalize")},
        "intensity": config.get("intensity"),
        **{name: config[name] for name in ("pca", "working_memory", "storage")},
        "marginals": config.get("marginals"),
    }


def read_sides(config: dict[str, Any], progress: Progress, *, stay: bool = False) -> tuple[Side, Side]:
    """Both sets as they are compared: drawn from, loaded at one size, turned and centred.

    ``stay`` is as for :func:`~bispectral_ot.datasets.together.read_together`.
    """
    from bispectral_ot.datasets.together import read_together
    from bispectral_ot.report.tables import Side

    listings, positions, reading = list_sides(config, progress)
    read = read_together(listings, positions, stay=stay, progress=progress, **reading)
    source, target = prepare_sides(config, read, progress)
    return Side(source, positions[0]), Side(target, positions[1])


def list_sides(
    config: dict[str, Any], progress: Progress
) -> tuple[list[Listing], list[NDArray[np.int64]], dict[str, Any]]:
    """What both sets hold, which of their images are compared, and how these are read."""
    import numpy as np

    from bispectral_ot.datasets.dataset import check_flat
    from bispectral_ot.datasets.load import drawn, list_set
    from bispectral_ot.datasets.resize import parse_size
    from bispectral_ot.datasets.transforms import half_positions

    symmetry, seed = _symmetry(config), config["seed"]

    def listed(name: str) -> Listing:
        return list_set(
            config[name],
            split=config[f"{name}_split"],
            root=config["root"],
            kind="sphere" if symmetry == "so3" else None,
            seed=seed,
            progress=progress,
        )

    first = listed("source")
    listings = [first, first if is_one_set(config) else listed("target")]
    if config["split_halves"]:
        positions = [np.sort(half) for half in half_positions(first, seed=seed)]
    else:
        positions = [np.arange(len(listing)) for listing in listings]
    if config["limit"] is not None:
        # a stream for each side, so that a set and itself do not give the same images
        positions = [drawn(places, config["limit"], seed=seed, stream=side) for side, places in enumerate(positions)]
    size = None if config["resize"] is None else parse_size(config["resize"])
    if config["grey"] or size is not None:
        for listing in listings:
            check_flat(listing, "--resize and --grey")
    return listings, positions, {"size": size, "grey": config["grey"]}


def prepare_sides(config: dict[str, Any], sides: Iterable[Dataset], progress: Progress) -> tuple[Dataset, Dataset]:
    """Both sets turned and centred, where that is asked for."""
    from bispectral_ot.datasets import center, rotate_randomly
    from bispectral_ot.datasets.dataset import as_shapes
    from bispectral_ot.datasets.transforms import warn_of_shared

    source, target = sides
    if _symmetry(config) == "so3-shapes":
        source, target = as_shapes(source), as_shapes(target)
    if config["rotate_source"]:
        warn_of_shared(source, target)  # the match would not find them
        source = rotate_randomly(source, seed=config["seed"], progress=progress)
    if config["center"]:
        source, target = center(source, progress=progress), center(target, progress=progress)
    return source, target


def is_one_set(config: dict[str, Any]) -> bool:
    """Whether source and target are the same set, which is read once."""
    return (config["source"], config["source_split"]) == (config["target"], config["target_split"])


def _symmetry(config: dict[str, Any]) -> str | None:
    """The symmetry of the features that were asked for, if it is known."""
    from bispectral_ot.invariants import make_features

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the match says it
        symmetry: str | None = make_features(config["features"], symmetry=config["symmetry"]).symmetry
    return symmetry


def match_sides(
    folder: Path,
    sides: tuple[Side, Side],
    options: dict[str, Any],
    config: dict[str, Any],
    loading: float,
    told: list[str],
    progress: Progress,
    *,
    use_poses: Callable[[Poses], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Match, write the folder, and return the content of ``results.json``, to which ``use_poses`` may add."""
    progress("prepare", 0, 1)  # libraries are loaded now
    from bispectral_ot.matching import match as match_datasets
    from bispectral_ot.report.match_folder import write_match
    from bispectral_ot.report.tables import class_table

    source, target = sides
    found = match_datasets(source.dataset, target.dataset, progress=progress, **options)
    table = class_table(found, source.dataset, target.dataset)
    if table is not None:
        _tell_about_classes(table)
    posed, extra = None, {}
    if config["poses"]:
        start = time.perf_counter()
        posed = found.poses(config.get("voters", 10), seed=config["seed"])
        extra = use_poses(posed) if use_poses else {}
        found.seconds["poses"] = time.perf_counter() - start
    return write_match(
        folder,
        found,
        source,
        target,
        table=table,
        poses=posed,
        k=config["top"],
        seed=config["seed"],
        draw=config["figures"],
        settings={name: config[name] for name in _SIDE_OPTIONS},
        seconds={"load": loading},
        extra={"warnings": told, **extra},
        model=config.get("model", True),
        progress=progress,
    )


def _tell_about_classes(table: ClassTable) -> None:
    alone = [name for name in table.rows if name not in table.columns]
    if table.accuracy is None:
        message = (
            f"the two sides have no class in common (source: {_listed(table.rows)}; target: "
            f"{_listed(table.columns)}), so there is no accuracy; the confusion table shows what corresponds."
        )
    elif alone:
        count = int(table.counts[[name in alone for name in table.rows]].sum())
        message = (
            f"{count:,} source images are of classes that the target does not have ({_listed(alone)}); "
            "in the accuracy they count as wrong."
        )
    else:
        return
    warnings.warn(message, DataWarning, stacklevel=2)


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")


def print_match(found: dict[str, Any], out: Path) -> None:
    """Print the short table."""
    settings, seconds = found["settings"], found["seconds"]
    facts = {name: _in_words(found[name]) for name in ("source", "target")}
    facts["distance"] = f"{found['distance']:.6g} ({settings['metric']}, {settings['features']})"
    facts["converged"] = (
        f"{'yes' if found['converged'] else 'NO'}, marginal error {found['marginal_error']:.1e} "
        f"({found['tol']:g} asked for)"
    )
    facts["shares"] = _shares_in_words(found)
    if found.get("accuracy") is not None:
        facts["accuracy"] = (
            f"{found['accuracy']:.1%} of the source images keep their class "
            f"({found['majority']:.1%} if all were given the largest class)"
        )
        weak = [(share, name) for name, share in found["recall"].items() if share < 1]
        if weak:
            facts["weakest"] = ", ".join(f"{name} {share:.0%}" for share, name in sorted(weak)[:3])
    if found.get("unmatched"):
        counts = found["unmatched"]
        facts["unmatched"] = (
            f"{counts['sources']:,} sources and {counts['targets']:,} targets have no counterpart "
            f"(of those that have one, about {counts['share']:.0%} are listed, too)"
        )
    if found.get("doubtful"):
        drawn = " and figures/doubtful.png" if (out / "figures" / "doubtful.png").exists() else ""
        facts["doubtful"] = f"{found['doubtful']:,} labels: see labels.csv{drawn}"
    if settings.get("kept_variance") is not None:
        facts["pca"] = f"{settings['columns']} components keep {settings['kept_variance']:.1%} of the variance"
    if found.get("poses"):
        facts["poses"] = _poses_in_words(found["poses"])
    if found.get("upright"):
        facts["upright"] = ", ".join(f"{count:,} in {name}" for name, count in found["upright"].items())
    stages = ", ".join(f"{stage} {spent:.1f}" for stage, spent in seconds.items() if spent >= 0.05)
    facts["seconds"] = f"{sum(seconds.values()):.1f} ({stages})"
    facts["run folder"] = str(out)
    if (out / "report.html").exists():
        facts["in a browser"] = str(out / "report.html")
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in facts.items():
        style = {"accuracy": "bold", "converged": "" if found["converged"] else "bold red"}.get(name, "")
        table.add_row(name, Text(text), style=style)  # a folder may be called [bold]
    output.print(table)


def _shares_in_words(found: dict[str, Any]) -> str:
    words = {
        "balanced": "balanced: every target gets its share",
        "relaxed": "relaxed: targets get what comes",
        "estimated": "estimated",
    }[found["marginals"]]
    if found.get("shares"):
        differences = [(each["source"] - each["target"], name, each) for name, each in found["shares"].items()]
        largest = [item for item in sorted(differences, key=lambda item: -abs(item[0]))[:3] if abs(item[0]) >= 0.01]
        named = [f"{name} {each['source']:.0%} ({each['target']:.0%} of the target)" for _, name, each in largest]
        words += f": {', '.join([*named, '...'] if named else ['as in the target'])}"
    moved = found["mass"]
    return words if moved > 0.9995 else f"{words}; {moved:.1%} of the source's mass finds a target"


def _poses_in_words(poses: dict[str, Any]) -> str:
    doubt = poses["median_uncertainty"]
    precision = "" if doubt is None else f" to {doubt:.1f} {poses['unit']} (median of the 90 % intervals)"
    rest = f"{poses['ambiguous']:,} ambiguous" + (f", {poses['without']:,} without one" if poses["without"] else "")
    return f"{poses['certain']:,} certain{precision}, {rest}"


def _in_words(side: dict[str, Any]) -> str:
    size = " x ".join(map(str, side["shape"]))
    classes = f"{len(side['classes'])} classes" if side["classes"] else "no labels"
    images = "image" if side["images"] == 1 else "images"
    return f"{side['name']}: {side['images']:,} {images} of {size}, {classes}"
