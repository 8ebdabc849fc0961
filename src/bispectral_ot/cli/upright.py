"""The verb ``upright``: turn the images of one set to stand like those of another."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bispectral_ot.cli.config import ConfigFile
from bispectral_ot.cli.console import progress_bars, shown_warnings
from bispectral_ot.cli.match import check_options, match_sides, print_match, read_sides
from bispectral_ot.cli.options import (
    COMPARISON,
    IMAGES,
    OUTPUT,
    AsJson,
    Features,
    Figures,
    NewRun,
    Quiet,
    Replace,
    Report,
    Root,
    WorkingMemory,
)
from bispectral_ot.errors import InputError

if TYPE_CHECKING:
    from bispectral_ot.poses import Poses
    from bispectral_ot.progress import Progress
    from bispectral_ot.report.tables import Side

# Options of the verb match that this one leaves at their defaults.
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("metric", "pca", "reg", "tol", "max_iter", "storage", "limit")),
    **{"normalize": True, "solver": "sinkhorn", "rotate_source": False, "split_halves": False, "top": 5, "poses": True},
    **{"source_split": "train", "target_split": "train"},
}


def upright(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Images to turn: a folder, a file or a name.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Upright images of the same kinds of things.")],
    out: NewRun,
    symmetry: Annotated[
        Literal["rotation", "rotation-reflection", "d4", "translation"],
        typer.Option(help="What was done to the sources; d4 is quarter turns and mirrors.", rich_help_panel=COMPARISON),
    ] = "rotation",
    features: Features = None,
    voters: Annotated[
        int, typer.Option(min=1, help="Targets that vote on the pose of a source.", rich_help_panel=COMPARISON)
    ] = 10,
    fill: Annotated[
        str,
        typer.Option(
            help="Corners: background (the median of an image's border), transparent, or a grey value.",
            rich_help_panel=OUTPUT,
        ),
    ] = "background",
    expand: Annotated[
        bool,
        typer.Option("--expand", help="Enlarge the canvas so that nothing is cut off.", rich_help_panel=OUTPUT),
    ] = False,
    guess: Annotated[
        bool, typer.Option("--guess", help="Turn images with an ambiguous pose, too.", rich_help_panel=OUTPUT)
    ] = False,
    resize: Annotated[
        str | None,
        typer.Option(
            help="Compare images at this size, 64 or 64x48; files are turned at their own.", rich_help_panel=IMAGES
        ),
    ] = None,
    grey: Annotated[
        bool, typer.Option("--grey", help="Compare without colours; files keep theirs.", rich_help_panel=IMAGES)
    ] = False,
    center: Annotated[
        bool, typer.Option("--center", help="Move the content to the centre before comparing.", rich_help_panel=IMAGES)
    ] = False,
    root: Root = None,
    seed: Annotated[int, typer.Option(min=0, help="Of what is drawn at random.", rich_help_panel=IMAGES)] = 0,
    working_memory: WorkingMemory = None,
    overwrite: Replace = False,
    report: Report = False,
    figures: Figures = True,
    as_json: AsJson = False,
    quiet: Quiet = False,
    config_file: ConfigFile = None,
) -> None:
    """Turn the images of SOURCE to stand like their counterparts in TARGET.

    Example: bispectral-ot upright scans/ samples/ --out runs/upright

    Example: bispectral-ot upright parts/ catalogue/ --fill transparent --expand --out runs/parts

    RUN gets everything that `match` writes, and:

    poses.csv: for each source the turn in degrees, counter-clockwise; its
    score (the probability that it is right but for 30 degrees), its
    uncertainty (nine of ten are off by less), whether it is ambiguous, and the
    runner-up.

    upright/: the original files, turned once at full resolution, under their
    own names. unsure/: those that are ambiguous or have no counterpart, as
    they are. For a source that is not a folder, upright.npz.
    """
    own = {"verb": "upright"} | locals()
    del own["config_file"]
    config = own | _DEFAULTS
    start = time.perf_counter()
    filling = _check_fill(fill)
    options = check_options(config)
    from bispectral_ot.files import to_json, write_json
    from bispectral_ot.runs import new_run, run_record

    with (
        shown_warnings() as told,
        new_run(out, verb="upright", inputs=(source, target, root), overwrite=overwrite) as folder,
        progress_bars(quiet=quiet) as progress,
    ):
        reading = time.perf_counter()
        sides = read_sides(config, progress)
        loading = time.perf_counter() - reading

        def write(poses: Poses) -> dict[str, Any]:
            placed = {"fill": filling, "expand": expand, "guess": guess}
            return {"upright": _write_upright(folder, source, sides[0], poses, placed, progress)}

        found = match_sides(folder, sides, options, config, loading, told, progress, use_poses=write)
        write_json(folder / "run.json", run_record(own, seconds=time.perf_counter() - start))
        if report:
            from bispectral_ot.report.html import write_report

            write_report(folder)
    if as_json:
        typer.echo(to_json({"run": str(out), **found}))
    elif not quiet:
        print_match(found, out)
    if not found["converged"]:
        raise typer.Exit(1)


def _check_fill(fill: str) -> str | float:
    try:
        return float(fill)
    except ValueError:
        from bispectral_ot.poses.upright_files import check_fill

        check_fill(fill, ())
        return fill


def _write_upright(
    folder: Path, source: str, side: Side, poses: Poses, placed: dict[str, Any], progress: Progress
) -> dict[str, int]:
    """Write the sources in their poses: as files, where they are files, else in one array."""
    import numpy as np

    from bispectral_ot.files import whole_file
    from bispectral_ot.poses import upright_files, upright_images

    if Path(source).is_dir():
        return upright_files(poses, source, side.dataset.files, folder, **placed, progress=progress)
    fill = placed["fill"]
    if fill == "transparent":
        raise InputError(
            f"{source} is no folder of image files, so that nothing can be transparent; fill with background."
        )
    level = None if fill == "background" else float(fill)
    images = upright_images(
        side.dataset.images, poses, fill=level, expand=placed["expand"], guess=placed["guess"], progress=progress
    )
    sure = poses.found & (placed["guess"] | ~poses.ambiguous)
    labels: dict[str, Any] = (
        {} if side.dataset.labels is None else {"labels": side.dataset.labels, "classes": side.dataset.classes}
    )
    with whole_file(folder / "upright.npz") as partial, partial.open("wb") as file:
        np.savez_compressed(file, images=images, sure=sure, **labels)
    return {"upright.npz": int(sure.sum()), "unsure": int((~sure).sum())}
