"""Commands ``compare`` (distances between any number of datasets) and ``monitor`` (batches against a reference set)."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bispectral_ot import options as opt
from bispectral_ot import runtime
from bispectral_ot.checks import vector_files
from bispectral_ot.cli import kept
from bispectral_ot.cli.command import NewRun
from bispectral_ot.cli.console import print_json, print_table, progress_bars, say, shown_warnings
from bispectral_ot.cli.job import Result, check_features, list_sets, read_listed, run_job
from bispectral_ot.errors import InputError

if TYPE_CHECKING:
    from bispectral_ot.datasets import Dataset

ALARM = 4
_SETS = "Two datasets or more: names from `datasets list`, folders or files; NAME=PATH names a dataset."
_BATCHES = "With --model, the reference set; otherwise a monitor written by --model, and one or more new sets."


def compare(
    sets: Annotated[list[str], typer.Argument(metavar="A B ...", help=_SETS)],
    out: NewRun,
    options: opt.CompareOptions,
    reading: opt.ReadOptions,
    machine: opt.RuntimeOptions,
    output: opt.ReportOptions,
) -> None:
    """Measure distances between datasets, with the distance expected between two samples of one population.

    Example: bispectral-ot compare monday/ tuesday/ wednesday/ --permutations 199 --out runs/week

    Example: bispectral-ot compare before=old/ after=new/ --symmetry-tests --report --out runs/changed

    Example: bispectral-ot compare mnist kmnist fashion-mnist --limit 2000 --labels --out runs/three

    Finished pairs are saved in RUN.cells; the same command resumes an interrupted comparison.

    RUN contains distances.csv, contributors.csv (the images that contribute most to each distance), classes.csv,
    figures, results.json and run.json.
    """
    from bispectral_ot.comparing.comparison import check_repeats, compare_sets, named_sets
    from bispectral_ot.report.run_folder import write_comparison
    from bispectral_ot.store import Store

    check_features(options, reading)
    if len(sets) < 2:
        raise InputError("at least two datasets are needed for a comparison; give their names or paths.")
    check_repeats(options.permutations, options.bootstrap, options.level)
    cells = Path(f"{out}.cells")

    def work(folder: Path) -> Result:
        start, datasets = time.perf_counter(), _read(sets, reading, options)
        seconds = {"load": time.perf_counter() - start}
        asked = replace(options, features="vectors") if vector_files(options.features) else options
        found = compare_sets(*named_sets(datasets), asked, Store(cells))
        if found.settings["reused"]:
            runtime.message(f"resumed: {found.settings['reused']:,} parts were computed by an earlier call")
        settings = found.settings | {name: value for name, value in reading.to_json().items() if name != "root"}
        found = replace(found, seconds=seconds | found.seconds, settings=settings)
        content = write_comparison(folder, found, list(datasets.values()), figures=output.figures)

        def show() -> None:
            rows = []
            for pair in found.pairs:
                figures = f"{pair.distance:.4g}", f"{pair.error:.0e}", f"{pair.reference:.4g}", f"{pair.ratio:.3g}"
                p_value = "" if pair.p_value is None else f"{pair.p_value:.3g}"
                rows.append((f"{pair.source}, {pair.target}", *figures, p_value))
            print_table(("sets", "distance", "error", "reference", "ratio", "p-value"), rows, left=["sets"])
            for each in (*(test.sentence for test in found.symmetry_tests), f"run folder: {out}"):
                say(each)

        return content, found.converged, show

    run_job("compare", out, work, options, reading, machine, output, scratch=cells, sets=sets)


def _read(words: list[str], reading: opt.ReadOptions, options: opt.CompareOptions) -> dict[str, Dataset]:
    """Sets by their names; ``NAME=PATH`` names a set."""
    parts = [("", "", word) if Path(word).exists() or "=" not in word else word.partition("=") for word in words]
    listed = list_sets([(path, reading.split) for _, _, path in parts], reading, options)
    names = [title or listing.name for (title, _, _), listing in zip(parts, listed[0], strict=True)]
    for (_, _, path), name in zip(parts, names, strict=True):
        if names.count(name) > 1:
            raise InputError(f"two sets are named {name!r}; give them different names, as in first={path}.")
    return dict(zip(names, read_listed(listed, reading, options)[0], strict=True))


def monitor(
    sets: Annotated[list[str], typer.Argument(metavar="REFERENCE | MONITOR NEW...", help=_BATCHES)],
    options: opt.MonitorOptions,
    output: opt.PrintOptions,
    model: Annotated[Path | None, typer.Option(metavar="FILE", help="Output file of the monitor, an .npz.")] = None,
) -> None:
    """Watch batches of new images for changes from a reference set.

    Example: bispectral-ot monitor good/ --model good.npz --run-length 500

    Example: bispectral-ot monitor good.npz monday/ tuesday/

    New images are brought to the size and the colours of the reference. Results are written next to MONITOR: a table
    of batches (.csv) and a chart (.html). Exit code 4: an alarm.
    """
    from bispectral_ot.comparing.batch_monitor import Monitor, append_results
    from bispectral_ot.datasets import load

    with shown_warnings(), progress_bars(quiet=output.quiet):
        if model is not None:
            if len(sets) != 1:
                raise InputError(f"--model needs exactly one reference set, got {len(sets)}.")
            if model.suffix != ".npz":
                raise InputError(f"--model must be a file that ends in .npz, got {model}.")
            reference = load(sets[0], resize=options.resize, grey=options.grey, frame=options.frame, seed=options.seed)
            length, allowed = options.run_length, options.allowing_for
            Monitor.fit(reference, run_length=length, allowing_for=allowed, seed=options.seed).save(model)
            if output.as_json:
                print_json({"model": str(model), "images": len(reference), "run_length": length})
            elif not output.quiet:
                say(f"monitor of {len(reference):,} images: {model}")
            return
        if len(sets) < 2:
            raise InputError("give --model FILE to create a monitor, or a monitor and at least one new set.")
        if options != opt.MonitorOptions(frame=options.frame):
            raise InputError("a monitor keeps its options; only --frame can be given without --model.")
        path, table = Path(sets[0]), Path(sets[0]).with_suffix(".csv")
        watch = Monitor.load(path)
        results = []
        for given in sets[1:]:
            results.append(watch.update(watch.read(given, frame=options.frame), name=str(Path(given))))
            watch.save(path)
            append_results(table, results[-1:])
            kept[:] = [f"the results of {len(results)} of {len(sets) - 1} batches are kept in {table}"]
    if output.as_json:
        print_json([{**asdict(each), "alarm": each.alarm} for each in results])
    for each in () if output.as_json else results:
        if each.alarm or not output.quiet:
            state = f"{'ALARM' if each.alarm else 'no change found'} (statistic {each.statistic:.3g}, threshold"
            say(f"{each.batch}: {state} {each.threshold:.3g}). {each.sentence}".strip())
    if any(each.alarm for each in results):
        raise typer.Exit(ALARM)
