"""Command ``predict``: labels and matches of new images by an earlier match."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from bispectral_ot.cli.command import NewRun
from bispectral_ot.cli.console import say
from bispectral_ot.cli.job import Context, Job, Result
from bispectral_ot.options import OutputOptions, PredictOptions


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a match, with its model.npz.")],
    images: Annotated[str, typer.Argument(metavar="IMAGES", help="New images: a folder, a file or a name.")],
    out: NewRun,
    options: PredictOptions,
    output: OutputOptions,
) -> None:
    """Predict labels and matches of new images from an earlier match, without solving again.

    Example: bispectral-ot predict runs/first new-photos/ --out runs/new

    Images are resized, converted to grey and centred as those of the match. An
    image that took part in the match gets the same answer again.

    The output folder gets matches.csv and labels.csv with the columns of
    `match`, poses.csv with --poses, results.json and run.json.
    """
    PredictJob(run=run, images=images, out=out, options=options, output=output).execute()


@dataclass(frozen=True, kw_only=True)
class PredictJob(Job):
    """Predictions of a match for new images."""

    verb: ClassVar[str] = "predict"
    run: Path
    images: str
    options: PredictOptions

    @property
    def inputs(self) -> list[str]:
        """Paths and names of datasets that the run reads."""
        return [str(self.run), self.images, *([str(self.options.root)] if self.options.root else [])]

    def check(self) -> None:
        """Raise an error about options and folders before any work is done."""
        from bispectral_ot.report import open_run

        open_run(self.run).predictor  # noqa: B018 (raises where there is none)
        super().check()

    def work(self, folder: Path, context: Context) -> Result:
        """Read the images, predict, and write the tables."""
        from bispectral_ot.matching import class_table
        from bispectral_ot.report import open_run, tables

        run = open_run(self.run)
        predictor, options = run.predictor, self.options
        target = predictor.target
        source = run.read(self.images, predictor, split=options.split, root=options.root, seed=options.seed)
        found = predictor.match(source)
        tables.write_table(folder / "matches.csv", tables.match_table(found, k=self.options.n_matches))
        labels = tables.label_table(found)
        if labels is not None:
            tables.write_table(folder / "labels.csv", labels)
        content: dict[str, object] = {"images": len(source), "targets": len(target)}
        if self.options.poses:
            posed = predictor.poses(source, found.top_matches(10), seed=self.options.seed)
            tables.write_table(folder / "poses.csv", tables.pose_table(posed, source))
            content["poses"] = tables.pose_summary(posed)
        if found.target_labels is not None:
            given, probabilities = found.label_details()[:2]
            content["labels"] = {str(name): int((given == name).sum()) for name in dict.fromkeys(given)}
            content["expected_accuracy"] = float(probabilities.mean())
            table = class_table(found)
            content |= {} if table is None else {"accuracy": table.accuracy, "recall": table.recall}

        def show() -> None:
            say(f"{len(source):,} images matched with {len(target):,} targets of {self.run}")
            say(f"run folder   {self.out}")

        return Result(content, True, show)
