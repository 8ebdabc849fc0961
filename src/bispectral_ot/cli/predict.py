"""The verb ``predict``: new images for a match that was solved before."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bispectral_ot.choices import Split
from bispectral_ot.cli.console import progress_bars, say, shown_warnings
from bispectral_ot.errors import InputError

if TYPE_CHECKING:
    from bispectral_ot.matching import Predictor


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a match, with its model.npz.")],
    images: Annotated[str, typer.Argument(metavar="IMAGES", help="New images: a folder, a file or a name.")],
    out: Annotated[Path, typer.Option(metavar="OUT", help="Folder for the answers; it appears when it is whole.")],
    top: Annotated[int, typer.Option(min=1, help="Best targets of each image in matches.csv.")] = 5,
    poses: Annotated[bool, typer.Option("--poses", help="Say how each image is turned, in poses.csv.")] = False,
    split: Annotated[Split, typer.Option(help="Which half of a named dataset.")] = "train",
    root: Annotated[Path | None, typer.Option(help="Folder that has the official IDX files.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of what is drawn at random.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace earlier answers in that folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print results.json, and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")] = False,
) -> None:
    """Give new images labels and matches by a match that was solved before, without solving again.

    Example: bispectral-ot predict runs/first new-photos/ --out runs/new

    Images are brought to the size and colours of those of the match, and
    centred where these were (--center). An image that took part in the match
    gets the same answer again.

    OUT gets matches.csv and labels.csv with the columns that `match` gives
    them, poses.csv with --poses, results.json and run.json.
    """
    config = {"verb": "predict"} | locals()
    start = time.perf_counter()
    made = _read_config(run)
    from bispectral_ot.files import to_json, write_csv, write_json
    from bispectral_ot.matching import Predictor
    from bispectral_ot.report import tables
    from bispectral_ot.report.match_folder import MODEL
    from bispectral_ot.report.pose_tables import pose_rows, pose_summary
    from bispectral_ot.runs import new_run, run_record

    if not (run / MODEL).is_file():
        raise InputError(f"{run} has no {MODEL}; match again, without --no-model and with an entropic solver.")
    with (
        shown_warnings() as told,
        new_run(out, verb="predict", inputs=(run, images, root), overwrite=overwrite) as folder,
        progress_bars(quiet=quiet) as progress,
    ):
        predictor = Predictor.load(run / MODEL)
        source = tables.Side.whole(_read_images(config, made, predictor, progress))
        target = tables.Side.whole(predictor.target)
        if predictor.positions is not None:
            target = tables.Side(predictor.target, predictor.positions)
        found = predictor.match(source.dataset, progress=progress)
        write_csv(folder / "matches.csv", *tables.match_rows(found, source, target, k=top))
        labels = tables.label_rows(found, source, target)
        if labels is not None:
            write_csv(folder / "labels.csv", *labels)
        content: dict[str, Any] = {"images": len(source.dataset), "targets": len(target.dataset), "warnings": told}
        if poses:
            posed = predictor.poses(source.dataset, found.top_matches(10), seed=seed, progress=progress)
            write_csv(folder / "poses.csv", *pose_rows(posed, source))
            content["poses"] = pose_summary(posed)
        if found.target_labels is not None:
            given, shares = found.transfer_labels()
            content["labels"] = {str(name): int((given == name).sum()) for name in dict.fromkeys(given)}
            content["mean_share"] = float(shares.mean())
            table = tables.class_table(found, source.dataset, target.dataset)
            content |= {} if table is None else {"accuracy": table.accuracy, "recall": table.recall}
        write_json(folder / "results.json", content)
        write_json(folder / "run.json", run_record(config, seconds=time.perf_counter() - start))
    if as_json:
        typer.echo(to_json({"run": str(out), **content}))
    elif not quiet:
        say(f"{content['images']:,} images by {content['targets']:,} targets of {run}")
        say(f"run folder   {out}")


def _read_config(run: Path) -> dict[str, Any]:
    """How the images of the match were read."""
    try:
        config: dict[str, Any] = json.loads((run / "run.json").read_text(encoding="utf-8"))["config"]
        return {"center": config["center"]}
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{run} is not the folder of a match; give the RUN of `bispectral-ot match`.") from None


def _read_images(config: dict[str, Any], made: dict[str, Any], predictor: Predictor, progress: Any) -> Any:
    from bispectral_ot.datasets import center, load

    target = predictor.target
    plain = target.kind == "images"
    dataset = load(
        config["images"],
        split=config["split"],
        root=config["root"],
        resize=target.images.shape[1:3] if plain else None,
        grey=plain and target.images.ndim == 3,
        kind="sphere" if target.kind == "sphere" else None,
        seed=config["seed"],
        progress=progress,
    )
    return center(dataset, progress=progress) if made["center"] else dataset
