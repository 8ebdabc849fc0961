"""Command ``compare``: distances between any number of datasets."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from bispectral_ot import runtime
from bispectral_ot.cli.console import print_table, say
from bispectral_ot.cli.job import Context, Job, Result
from bispectral_ot.cli.reading import check_features, is_sphere, read_sets
from bispectral_ot.errors import InputError, RunExistsError
from bispectral_ot.options import CompareOptions, ReadOptions, ReportOptions, RuntimeOptions


def compare(
    sets: Annotated[
        list[str],
        typer.Argument(
            metavar="A B ...",
            help="Two datasets or more: names from `datasets list`, folders or files; NAME=PATH names a dataset.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="RUN", help="Output folder; an interrupted run is resumed.")],
    options: CompareOptions,
    reading: ReadOptions,
    machine: RuntimeOptions,
    output: ReportOptions,
) -> None:
    """Measure distances between datasets, with the distance expected between two samples of one population.

    Example: bispectral-ot compare monday/ tuesday/ wednesday/ --permutations 199 --out runs/week

    Example: bispectral-ot compare before=old/ after=new/ --symmetry-tests --report --out runs/changed

    Example: bispectral-ot compare mnist kmnist fashion-mnist --limit 2000 --labels --out runs/three

    Finished pairs are saved; an interrupted comparison is resumed by the same command.

    RUN gets distances.csv, contributors.csv (the images that contribute most to
    each distance), classes.csv, figures, results.json, run.json, and the saved
    pairs in cells/.
    """
    CompareJob(sets=sets, out=out, options=options, reading=reading, machine=machine, output=output).execute()


@dataclass(frozen=True, kw_only=True)
class CompareJob(Job):
    """Comparison of datasets, in a folder that is filled pair by pair."""

    verb: ClassVar[str] = "compare"
    sets: list[str]
    options: CompareOptions
    reading: ReadOptions
    output: ReportOptions

    def check(self) -> None:
        """Raise an error about options and output folder before any work is done."""
        from bispectral_ot.comparing.compare import check_repeats
        from bispectral_ot.report.run_folder import COMPARISON_FILES
        from bispectral_ot.runs import check_resumable

        check_features(self.options, self.reading)
        if len(self.sets) < 2:
            raise InputError("at least two datasets are needed for a comparison; give their names or paths.")
        check_repeats(self.options.permutations, self.options.bootstrap, self.options.level)
        check_resumable(self.out, verb=self.verb, outputs=("cells", "report.html", *COMPARISON_FILES))

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Output folder itself."""
        yield self.out

    def work(self, folder: Path, context: Context) -> Result:
        """Read the datasets, compare them, and write the tables."""
        from bispectral_ot.comparing.compare import compare_sets, named_sets
        from bispectral_ot.report.run_folder import write_comparison
        from bispectral_ot.runs import resumed_run
        from bispectral_ot.store import Store, content_hash, dataset_hash

        start = time.perf_counter()
        datasets = read_sets(self.sets, self.reading, sphere=is_sphere(self.options))
        loading = time.perf_counter() - start
        key = content_hash(
            sorted((name, dataset_hash(each)) for name, each in datasets.items()), self.options.to_json()
        )
        self._keep_other_results(key)
        with resumed_run(folder, dict(self.config)):
            with runtime.running(memory=self.machine.working_memory, engine=context.engine):
                found = compare_sets(*named_sets(datasets), self.options, Store(folder / "cells"))
            found = replace(
                found,
                seconds={"load": loading, **found.seconds},
                settings=found.settings | {n: v for n, v in self.reading.to_json().items() if n != "root"},
            )
            content = write_comparison(
                folder,
                found,
                list(datasets.values()),
                figures=self.output.figures,
                extra={"key": key},
            )

        def show() -> None:
            header = ("sets", "distance", "error", "one population", "ratio", "p")
            rows = []
            for pair in found.pairs:
                figures = f"{pair.distance:.4g}", f"{pair.error:.0e}", f"{pair.reference:.4g}", f"{pair.ratio:.3g}"
                rows.append(
                    (f"{pair.source}, {pair.target}", *figures, "" if pair.p_value is None else f"{pair.p_value:.3g}")
                )
            print_table(header, rows, left=["sets"])
            for each in found.symmetry_tests:
                say(each.sentence)
            if found.settings.get("reused"):
                say(f"resumed: {found.settings['reused']:,} parts were computed by an earlier call")
            say(f"run folder: {self.out}")

        return Result(content, found.converged, show)

    def _keep_other_results(self, key: str) -> None:
        """Refuse to replace the results of a comparison with other datasets or options, unless it is asked for."""
        try:
            found = json.loads((self.out / "results.json").read_text(encoding="utf-8")).get("key")
        except (OSError, ValueError, AttributeError, RecursionError):
            return
        if found != key and not self.output.overwrite:
            raise RunExistsError(
                f"{self.out} has the results of a comparison with other sets or options; choose another --out, or "
                "replace them with --overwrite (parts that are the same are reused)."
            )
