"""Command ``match``: pair the images of two datasets by content."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from bispectral_ot import runtime
from bispectral_ot.cli.command import NewRun
from bispectral_ot.cli.job import Context, Job, Result
from bispectral_ot.cli.printing import print_match
from bispectral_ot.cli.reading import SET_HELP, check_features, is_sphere, list_pair, read_pair
from bispectral_ot.errors import DataWarning
from bispectral_ot.options import MatchOptions, MatchOutputOptions, PairOptions, RuntimeOptions

if TYPE_CHECKING:
    from bispectral_ot.datasets import Dataset
    from bispectral_ot.engines.dask import Dask
    from bispectral_ot.matching import ClassTable, Match
    from bispectral_ot.poses import Poses
    from bispectral_ot.transport import Solver


def match(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=f"{SET_HELP}. Labels are optional.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Dataset to match it with, given likewise.")],
    out: NewRun,
    options: MatchOptions,
    reading: PairOptions,
    machine: RuntimeOptions,
    output: MatchOutputOptions,
) -> None:
    """Match the images of SOURCE with those of TARGET by content.

    Example: bispectral-ot match rotated-photos/ catalogue/ --out runs/first

    Example: bispectral-ot match mnist-5k mnist-5k --split-halves --rotate-source --limit 900 --out runs/trial

    Example: bispectral-ot match cells/ atlas/ --symmetry rotation-reflection --center --out runs/cells

    Example: bispectral-ot match scanned-parts/ cad-models/ --out runs/parts

    Example: bispectral-ot match scans.npz mnist --features ring-bispectrum --metric l1 --out runs/paper

    Example: bispectral-ot match --config runs/first/run.json --out runs/again

    Example: bispectral-ot match survey.npz atlas.npz --scheduler tcp://head:8786 --out runs/survey

    RUN gets results.json (distance, convergence, settings, accuracy), run.json
    (versions, machine), model.npz (for `predict`), figures, and these tables:

    matches.csv: the best targets of each source image, with their weight and
    distance. Images are numbered from 0.

    labels.csv: the label that each source gets from the target (or each target
    from the source, if only SOURCE has labels) and its weight; for sources also
    the runner-up, label and distance of the nearest target, and an outlier
    p-value: the fraction of targets that are at least as far from the others.

    outliers.csv: outliers of both sets, unless --marginals balanced.

    confusion.csv: source classes by target classes, if both sets have labels.

    poses.csv: with --poses, the pose of each source relative to its targets.

    With --scheduler, an interrupted solve is resumed from RUN.solve.npz by the same
    command. Folders and Zarr stores are read by the workers of tcp://..., which must
    see them under the same path; figures and model.npz are then skipped, unless --report or --poses needs the images.
    """
    job = MatchJob(
        source=source, target=target, out=out, options=options, reading=reading, machine=machine, output=output
    )
    if output.dry_run:
        job.check()
        from bispectral_ot.cli.plan import print_plan

        print_plan(job)
    else:
        job.execute()


@dataclass(frozen=True, kw_only=True)
class MatchJob(Job):
    """Match of two datasets."""

    verb: ClassVar[str] = "match"
    source: str
    target: str
    options: MatchOptions
    reading: PairOptions
    output: MatchOutputOptions

    @property
    def inputs(self) -> list[str]:
        """Paths and names of datasets that the run reads."""
        return [
            self.source,
            self.target,
            *(str(path) for path in (self.reading.root, self.reading.corrections) if path),
        ]

    def check(self) -> None:
        """Raise an error about options and output folder before any work is done."""
        super().check()
        check_features(self.options, self.reading, poses=self.output.poses)

    def work(self, folder: Path, context: Context) -> Result:
        """Read both sets, match them, and write the tables."""
        start = time.perf_counter()
        listings, positions = list_pair(self.source, self.target, self.reading, sphere=is_sphere(self.options))
        lazy = self._lazy(context.engine)
        source, target, evidence = read_pair(listings, positions, self.reading, self.options, lazy=lazy)
        if self.reading.corrections is not None:
            from bispectral_ot.report.corrections import with_corrections

            source, target = with_corrections(source, target, self.reading.corrections)
        loading = time.perf_counter() - start
        runtime.progress("prepare", 0, 1)  # libraries are loaded
        from bispectral_ot.matching import class_table
        from bispectral_ot.report.run_folder import write_match

        found = self.solve(source, target, context.engine)
        table = class_table(found)
        if table is not None:
            _warn_of_classes(table)
        start = time.perf_counter()
        poses = self.poses(found)
        extra = {} if poses is None else self.placed(folder, source, poses)
        if poses is not None:
            found.seconds["poses"] = time.perf_counter() - start
        reading = self.reading.to_json()
        content = write_match(
            folder,
            found,
            poses=poses,
            k=self.output.n_matches,
            figures=self.output.figures,
            settings={name: value for name, value in reading.items() if name not in ("root", "frame")} | evidence,
            extra={"seconds": {"load": loading}, **extra},
        )
        return Result(content, found.converged, lambda: print_match(content, self.out))

    def solve(self, source: Dataset, target: Dataset, engine: Dask | None = None) -> Match:
        """Match the two sets; a solve on a cluster that is lost is resumed by the next call."""
        from bispectral_ot.matching import match

        options = self.options
        return match(
            source,
            target,
            symmetry=options.symmetry,
            features=options.extractor,
            metric=options.metric,
            intensity=options.intensity,
            frame="canvas",  # frames were chosen when the sets were read
            pca=options.pca,
            normalize=options.normalize,
            marginals=options.marginals,
            metric_learning=options.metric_learning,
            solver=self.solver,
            working_memory=self.machine.working_memory,
            client=engine,
            state=Path(f"{self.out}.solve.npz") if engine and options.solver == "sinkhorn" else None,
        )

    @property
    def solver(self) -> Solver:
        """Solver with its options."""
        from bispectral_ot.transport import SOLVERS

        given = {name: getattr(self.options, name) for name in ("reg", "tol", "max_iter")}
        return SOLVERS[str(self.options.solver)](**{name: each for name, each in given.items() if each is not None})

    def poses(self, found: Match) -> Poses | None:
        """Poses of the sources, if they are asked for."""
        return found.poses(seed=self.reading.seed) if self.output.poses else None

    def placed(self, folder: Path, source: Dataset, poses: Poses) -> dict[str, object]:
        """Write what is made of poses; entries for results.json."""
        return {}

    def _lazy(self, engine: Dask | None) -> bool:
        """Whether workers read the images: those of another machine, unless something is done to them here."""
        if engine is None or str(self.machine.scheduler).startswith("local:"):
            return False
        reading, output = self.reading, self.output
        return not (reading.rotate_source or reading.center or reading.corrections or output.poses or output.report)


def _warn_of_classes(table: ClassTable) -> None:
    alone = [name for name in table.rows if name not in table.columns]
    if table.accuracy is None:
        message = (
            f"the two sets have no class in common (source: {_listed(table.rows)}; target: {_listed(table.columns)}), "
            "so there is no accuracy; the confusion table shows which classes correspond."
        )
    elif alone:
        count = int(table.counts[[name in alone for name in table.rows]].sum())
        message = (
            f"{count:,} source images are of classes that the target does not have ({_listed(alone)}); "
            "they count as wrong in the accuracy."
        )
    else:
        return
    warnings.warn(message, DataWarning, stacklevel=2)


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
