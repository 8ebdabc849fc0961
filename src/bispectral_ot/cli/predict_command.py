"""Command ``predict``: labels and matches of new images by an earlier match."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bispectral_ot.cli.command import NewRun
from bispectral_ot.cli.console import say
from bispectral_ot.cli.job import Result, run_job
from bispectral_ot.options import OutputOptions, PredictOptions

if TYPE_CHECKING:
    from bispectral_ot.engines.cluster import Dask


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a match, with its model.npz.")],
    images: Annotated[
        str,
        typer.Argument(metavar="IMAGES", help="New images: a folder, a file or a name; vectors if RUN is of vectors."),
    ],
    out: NewRun,
    options: PredictOptions,
    output: OutputOptions,
) -> None:
    """Predict labels and matches of new images from an earlier match, without solving again.

    Example: bispectral-ot predict runs/first new-photos/ --out runs/new

    Images are resized, converted to grey and centred as those of the match; an image that took part in it gets the
    same answer again. The output folder gets matches.csv and labels.csv with the columns of `match`, poses.csv with
    --poses, results.json and run.json.
    """
    from bispectral_ot.matching import class_table
    from bispectral_ot.report import open_run, tables

    model = open_run(run)
    predictor = model.load_predictor(options.encoder)  # raises where there is none

    def work(folder: Path, engine: Dask | None) -> Result:
        source = model.read(images, predictor, split=options.split, root=options.root, seed=options.seed)
        found = predictor.match(source)
        written = {"matches": tables.match_table(found, k=options.n_matches), "labels": tables.label_table(found)}
        content: dict[str, object] = {"images": len(source), "targets": len(predictor.target)}
        if options.poses:
            poses = predictor.poses(source, found.top_matches(10), seed=options.seed)
            written["poses"] = tables.pose_table(poses, source)
            content["poses"] = tables.pose_summary(poses)
        tables.write_tables(folder, written)
        if found.target_labels is not None:
            given = found.labels()
            content["labels"] = {str(name): int(count) for name, count in given.label.value_counts(sort=False).items()}
            content["expected_accuracy"] = float(given.probability.mean())
            table = class_table(found)
            content |= {} if table is None else {"accuracy": table.accuracy, "recall": table.recall}

        def show() -> None:
            say(f"{len(source):,} images matched with {len(predictor.target):,} targets of {run}")
            say(f"run folder: {out}")

        return Result(content, True, show)

    run_job("predict", out, work, options, output, run=run, images=images)
