"""Jobs: the steps that all commands with a run folder have in common."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from bispectral_ot.cli.console import print_json, printing, progress_bars, shown_warnings
from bispectral_ot.options import Options, OutputOptions, ReportOptions, RuntimeOptions

if TYPE_CHECKING:
    from bispectral_ot.engines.cluster import Dask


class Call(NamedTuple):
    """Surroundings of the work: folder to write to, cluster of --scheduler, and words and options for run.json."""

    folder: Path
    engine: Dask | None
    config: Mapping[str, object]


class Result(NamedTuple):
    """Outcome of a job: content of results.json, whether all solves met their tolerance, and how to print it."""

    content: Mapping[str, object]
    converged: bool
    show: Callable[[], None]


def run_job(
    verb: str, out: Path, work: Callable[[Call], Result], *options: Options, in_place: bool = False, **words: object
) -> None:
    """Do the work of a command in its run folder, record and print it; exit code 1 where it has not converged.

    Parameters
    ----------
    work : function that reads, computes, and writes results and tables
    options, words : options and arguments of the call, for run.json
    in_place : whether to work in ``out`` itself, which can be resumed, instead of a temporary folder
    """
    from bispectral_ot.engines.cluster import connected
    from bispectral_ot.files import write_json
    from bispectral_ot.runs import new_run, run_record

    start = time.perf_counter()
    output = next(each for each in options if isinstance(each, OutputOptions))
    machine = next((each for each in options if isinstance(each, RuntimeOptions)), RuntimeOptions())
    config: dict[str, object] = {"verb": verb, "out": out, **words}
    for each in options:
        config |= each.to_json()
    paths = [value for each in options for value in vars(each).values() if isinstance(value, Path)]
    inputs = [str(each) for each in words.values() if isinstance(each, (str, Path))] + [str(path) for path in paths]
    new = nullcontext(out) if in_place else new_run(out, verb=verb, inputs=inputs, overwrite=output.overwrite)
    with (
        shown_warnings() as told,
        new as folder,
        connected(machine.scheduler) as engine,
        progress_bars(quiet=output.quiet),
    ):
        result = work(Call(folder, engine, config))
        cluster = {"cluster": engine.record()} if engine else {}
        write_json(folder / "run.json", run_record(config, seconds=time.perf_counter() - start) | cluster)
        write_json(folder / "results.json", {**result.content, "warnings": told})  # the page shows warnings
        if isinstance(output, ReportOptions) and output.report:
            from bispectral_ot.report.page import write_report
            from bispectral_ot.report.run_folder import decorate

            decorate({"report.html": lambda: write_report(folder)})
        content = {**result.content, "warnings": told}
        write_json(folder / "results.json", content)
    with printing():
        if output.as_json:
            print_json({"run": str(out), **content})
        elif not output.quiet:
            result.show()
    if not result.converged:
        raise typer.Exit(1)
