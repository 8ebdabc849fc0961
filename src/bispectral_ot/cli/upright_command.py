"""Command ``upright``: rotate the images of one set to the pose of another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bispectral_ot.cli.command import NewRun
from bispectral_ot.cli.job import run_job
from bispectral_ot.cli.match_command import MatchTask
from bispectral_ot.cli.reading import check_features
from bispectral_ot.errors import InputError
from bispectral_ot.options import (
    ImageOptions,
    MatchOptions,
    MatchOutputOptions,
    PairOptions,
    ReportOptions,
    RuntimeOptions,
    UprightOptions,
)

if TYPE_CHECKING:
    from bispectral_ot.datasets import Dataset
    from bispectral_ot.matching import Match
    from bispectral_ot.poses import Poses


def upright(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Images to rotate: a folder, a file or a name.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Upright images of the same kinds of things.")],
    out: NewRun,
    options: UprightOptions,
    reading: ImageOptions,
    machine: RuntimeOptions,
    output: ReportOptions,
) -> None:
    """Rotate the images of SOURCE to the pose of their matches in TARGET.

    Example: bispectral-ot upright scans/ samples/ --out runs/upright

    Example: bispectral-ot upright parts/ catalogue/ --fill transparent --expand --out runs/parts

    Images are compared as --resize, --grey and --center say; files are rotated at their own size and colours. RUN gets
    everything that `match` writes; poses.csv (angle in degrees, counter-clockwise, probability of being within 30
    degrees of the true pose, half width of a 90 % interval, whether it is ambiguous, and the runner-up); upright/ (the
    original files, rotated once at full resolution) and unsure/ (unchanged files whose pose is ambiguous or unknown);
    for a source that is not a folder, upright.npz.
    """
    from bispectral_ot.poses import check_fill

    fill: str | float = options.fill
    try:
        fill = float(fill)
    except ValueError:
        check_fill(fill, ())
    matching = MatchOptions(symmetry=options.symmetry, features=options.features)
    writing = MatchOutputOptions(**vars(output), poses=True)
    pair = PairOptions(**vars(reading))
    task = UprightTask(source, target, out, matching, pair, machine, writing, options, fill)
    check_features(task.options, reading, poses=True)
    run_job("upright", out, task.work, options, reading, machine, output, source=source, target=target)


@dataclass(frozen=True)
class UprightTask(MatchTask):
    """Match whose sources are written in the pose of their targets."""

    placing: UprightOptions
    fill: str | float

    def poses(self, found: Match) -> Poses:
        """Poses of the sources."""
        return found.poses(self.placing.pose_neighbours, seed=self.reading.seed)

    def placed(self, folder: Path, source: Dataset, poses: Poses) -> dict[str, object]:
        """Write the sources in their poses: as files if they are files, else in one array."""
        import numpy as np

        from bispectral_ot.files import whole_file
        from bispectral_ot.poses import upright_files, upright_images

        fill, expand, guess = self.fill, self.placing.expand, self.placing.include_ambiguous
        if Path(self.source).is_dir():
            written = upright_files(poses, self.source, source.files, folder, fill=fill, expand=expand, guess=guess)
            return {"upright": written}
        if fill == "transparent":
            raise InputError(f"{self.source} is not a folder of image files; only files can be transparent.")
        level = None if fill == "background" else float(fill)
        images = upright_images(source.images, poses, fill=level, expand=expand, guess=guess)
        sure = poses.found & (guess | ~poses.ambiguous)
        labels = {} if source.labels is None else {"labels": source.labels, "classes": source.classes}
        with whole_file(folder / "upright.npz") as partial, partial.open("wb") as file:
            np.savez_compressed(file, images=images, sure=sure, **labels)  # type: ignore[arg-type]
        return {"upright": {"upright.npz": int(sure.sum()), "unsure": int((~sure).sum())}}
