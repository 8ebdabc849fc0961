"""Jobs: the steps that all commands with a run folder have in common."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from bispectral_ot.cli import kept
from bispectral_ot.cli.console import print_json, printing, progress_bars, shown_warnings
from bispectral_ot.options import Options, OutputOptions, ReportOptions, RuntimeOptions

if TYPE_CHECKING:
    from bispectral_ot.engines.cluster import Dask

Work = Callable[[Path, "Dask | None"], "Result"]


class Result(NamedTuple):
    """Outcome of a job: content of results.json, whether all solves met their tolerance, and how to print it."""

    content: Mapping[str, object]
    converged: bool
    show: Callable[[], None]


@contextmanager
def noted() -> Iterator[None]:
    """Tell the program what a run that was interrupted in the block has kept."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as stop:
        kept.extend(getattr(stop, "__notes__", ()))
        raise


def run_job(
    verb: str, out: Path, work: Work, *options: Options, scratch: Path | None = None, **words: str | Path | list[str]
) -> None:
    """Do the work of a command in a new run folder, record and print it; ``options`` and ``words`` are for run.json."""
    from bispectral_ot.engines.cluster import connected
    from bispectral_ot.files import write_json
    from bispectral_ot.report.page import write_report
    from bispectral_ot.report.run_folder import decorate
    from bispectral_ot.runs import new_run, run_record

    start = time.perf_counter()
    output = next(each for each in options if isinstance(each, OutputOptions))
    machine = next((each for each in options if isinstance(each, RuntimeOptions)), RuntimeOptions())
    config: dict[str, object] = {"verb": verb, "out": out, **words}
    inputs: list[str | Path] = []
    for each in options:
        config |= each.to_json()
        inputs += [value for value in vars(each).values() if isinstance(value, Path)]
    for word in words.values():
        inputs += [each.rpartition("=")[2] for each in word] if isinstance(word, list) else [word]
    with (
        shown_warnings() as told,
        noted(),
        new_run(out, verb=verb, inputs=inputs, overwrite=output.overwrite) as folder,
        connected(machine.scheduler) as engine,
        progress_bars(quiet=output.quiet) as messages,
    ):
        write_json(folder / "run.json", run_record(config, seconds=0.0))
        result = work(folder, engine)
        content = {**result.content, "warnings": told}
        record = run_record(config, seconds=time.perf_counter() - start) | {"messages": messages}
        write_json(folder / "run.json", record | ({"cluster": engine.record()} if engine else {}))
        write_json(folder / "results.json", content)  # the page shows warnings
        if isinstance(output, ReportOptions) and output.report:
            decorate({"report.html": lambda: write_report(folder)})
            write_json(folder / "results.json", content)
    if scratch is not None:
        shutil.rmtree(scratch, ignore_errors=True)
    with printing():
        if output.as_json:
            print_json({"run": str(out), **content})
        elif not output.quiet:
            result.show()
    if not result.converged:
        raise typer.Exit(1)
