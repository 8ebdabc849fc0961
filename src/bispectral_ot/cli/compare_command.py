"""Command ``compare``: distances between any number of datasets."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bispectral_ot import runtime
from bispectral_ot.cli.command import NewRun
from bispectral_ot.cli.console import print_table, say
from bispectral_ot.cli.job import Result, run_job
from bispectral_ot.cli.reading import check_features, read_sets
from bispectral_ot.errors import InputError
from bispectral_ot.literals import vector_files
from bispectral_ot.options import CompareOptions, ReadOptions, ReportOptions, RuntimeOptions

if TYPE_CHECKING:
    from bispectral_ot.comparing import Comparison
    from bispectral_ot.engines.cluster import Dask


def compare(
    sets: Annotated[
        list[str],
        typer.Argument(
            metavar="A B ...",
            help="Two datasets or more: names from `datasets list`, folders or files; NAME=PATH names a dataset.",
        ),
    ],
    out: NewRun,
    options: CompareOptions,
    reading: ReadOptions,
    machine: RuntimeOptions,
    output: ReportOptions,
) -> None:
    """Measure distances between datasets, with the distance expected between two samples of one population.

    Example: bispectral-ot compare monday/ tuesday/ wednesday/ --permutations 199 --out runs/week

    Example: bispectral-ot compare before=old/ after=new/ --symmetry-tests --report --out runs/changed

    Example: bispectral-ot compare mnist kmnist fashion-mnist --limit 2000 --labels --out runs/three

    Finished pairs are saved in RUN.cells; an interrupted comparison is resumed by the same command.

    RUN gets distances.csv, contributors.csv (the images that contribute most to each distance), classes.csv, figures,
    results.json and run.json.
    """
    from bispectral_ot.comparing.set_distances import check_repeats, compare_sets, named_sets
    from bispectral_ot.report.run_folder import write_comparison
    from bispectral_ot.store import Store

    check_features(options, reading)
    if len(sets) < 2:
        raise InputError("at least two datasets are needed for a comparison; give their names or paths.")
    check_repeats(options.permutations, options.bootstrap, options.level)
    cells = Path(f"{out}.cells")

    def work(folder: Path, engine: Dask | None) -> Result:
        start = time.perf_counter()
        datasets = read_sets(sets, reading, options)
        seconds = {"load": time.perf_counter() - start}
        with runtime.running(memory=machine.working_memory, engine=engine):
            asked = replace(options, features="vectors") if vector_files(options.features) else options
            found = compare_sets(*named_sets(datasets), asked, Store(cells))
        if found.settings["reused"]:
            runtime.message(f"resumed: {found.settings['reused']:,} parts were computed by an earlier call")
        settings = found.settings | {name: value for name, value in reading.to_json().items() if name != "root"}
        found = replace(found, seconds=seconds | found.seconds, settings=settings)
        content = write_comparison(folder, found, list(datasets.values()), figures=output.figures)
        return Result(content, found.converged, lambda: _show(found, out))

    run_job("compare", out, work, options, reading, machine, output, scratch=cells, sets=sets)


def _show(found: Comparison, out: Path) -> None:
    rows = []
    for pair in found.pairs:
        figures = f"{pair.distance:.4g}", f"{pair.error:.0e}", f"{pair.reference:.4g}", f"{pair.ratio:.3g}"
        p_value = "" if pair.p_value is None else f"{pair.p_value:.3g}"
        rows.append((f"{pair.source}, {pair.target}", *figures, p_value))
    print_table(("sets", "distance", "error", "one population", "ratio", "p"), rows, left=["sets"])
    for each in found.symmetry_tests:
        say(each.sentence)
    say(f"run folder: {out}")
