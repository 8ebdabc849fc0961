"""Command ``compare``: distances between any number of datasets."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bispectral_ot import runtime
from bispectral_ot.cli.console import print_table, say
from bispectral_ot.cli.job import Call, Result, run_job
from bispectral_ot.cli.reading import check_features, read_sets
from bispectral_ot.errors import InputError, RunExistsError
from bispectral_ot.options import CompareOptions, ReadOptions, ReportOptions, RuntimeOptions

if TYPE_CHECKING:
    from bispectral_ot.comparing import Comparison


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
    from bispectral_ot.comparing.set_distances import check_repeats, compare_sets, named_sets
    from bispectral_ot.report.run_folder import COMPARISON_FILES, write_comparison
    from bispectral_ot.runs import check_resumable, resumed_run
    from bispectral_ot.store import Store, content_hash, dataset_hash

    check_features(options, reading)
    if len(sets) < 2:
        raise InputError("at least two datasets are needed for a comparison; give their names or paths.")
    check_repeats(options.permutations, options.bootstrap, options.level)
    check_resumable(out, verb="compare", outputs=("cells", "report.html", *COMPARISON_FILES))

    def work(call: Call) -> Result:
        start = time.perf_counter()
        datasets = read_sets(sets, reading, options)
        seconds = {"load": time.perf_counter() - start}
        contents = sorted((name, dataset_hash(each)) for name, each in datasets.items())
        key = content_hash(contents, options.to_json())
        if not output.overwrite:
            _keep_other_results(out, key)
        with resumed_run(out, call.config):
            with runtime.running(memory=machine.working_memory, engine=call.engine):
                found = compare_sets(*named_sets(datasets), options, Store(out / "cells"))
            settings = found.settings | {name: value for name, value in reading.to_json().items() if name != "root"}
            found = replace(found, seconds=seconds | found.seconds, settings=settings)
            extra = {"key": key}
            content = write_comparison(out, found, list(datasets.values()), figures=output.figures, extra=extra)
        return Result(content, found.converged, lambda: _show(found, out))

    run_job("compare", out, work, options, reading, machine, output, in_place=True, sets=sets)


def _keep_other_results(out: Path, key: str) -> None:
    """Refuse to replace the results of a comparison with other datasets or options."""
    try:
        found = json.loads((out / "results.json").read_text(encoding="utf-8")).get("key")
    except (OSError, ValueError, AttributeError, RecursionError):
        return
    if found != key:
        raise RunExistsError(
            f"{out} has the results of a comparison with other sets or options; choose another --out, or "
            "replace them with --overwrite (parts that are the same are reused)."
        )


def _show(found: Comparison, out: Path) -> None:
    rows = []
    for pair in found.pairs:
        figures = f"{pair.distance:.4g}", f"{pair.error:.0e}", f"{pair.reference:.4g}", f"{pair.ratio:.3g}"
        p_value = "" if pair.p_value is None else f"{pair.p_value:.3g}"
        rows.append((f"{pair.source}, {pair.target}", *figures, p_value))
    print_table(("sets", "distance", "error", "one population", "ratio", "p"), rows, left=["sets"])
    for each in found.symmetry_tests:
        say(each.sentence)
    if found.settings.get("reused"):
        say(f"resumed: {found.settings['reused']:,} parts were computed by an earlier call")
    say(f"run folder: {out}")
