"""Jobs: the steps that all commands with a run folder have in common."""

from __future__ import annotations

import dataclasses
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import typer

from bispectral_ot.cli.console import printing, progress_bars, shown_warnings
from bispectral_ot.options import Options, OutputOptions, ReportOptions, RuntimeOptions

if TYPE_CHECKING:
    from bispectral_ot.engines.dask import Dask


class Context(NamedTuple):
    """Surroundings of the work.

    Attributes
    ----------
    engine : cluster that --scheduler names
    warnings : warnings shown so far
    """

    engine: Dask | None
    warnings: list[str]


@dataclass(frozen=True)
class Result:
    """Outcome of a job.

    Attributes
    ----------
    content : content of results.json
    converged : whether all solves met their tolerance
    show : function that prints the result for people
    """

    content: Mapping[str, object]
    converged: bool
    show: Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Job(ABC):
    """A call of a command that makes a run; its fields are the words and options of the call."""

    out: Path
    output: OutputOptions = dataclasses.field(default_factory=OutputOptions)
    machine: RuntimeOptions = dataclasses.field(default_factory=RuntimeOptions)
    verb: ClassVar[str]

    @abstractmethod
    def work(self, folder: Path, context: Context) -> Result:
        """Read, compute, and write results and tables to ``folder``."""

    def check(self) -> None:
        """Raise an error about options and output folder before any work is done."""
        from bispectral_ot.runs import check_free

        check_free(self.out, verb=self.verb, inputs=self.inputs, overwrite=self.output.overwrite)

    @property
    def inputs(self) -> list[str]:
        """Paths and names of datasets that the run reads."""
        return []

    @property
    def config(self) -> Mapping[str, object]:
        """Words and options, for run.json."""
        config: dict[str, object] = {"verb": self.verb}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            config |= value.to_json() if isinstance(value, Options) else {field.name: value}
        return config

    def execute(self) -> None:
        """Do the work in a new run folder, record and print it; exit code 1 where something has not converged."""
        from bispectral_ot.engines.cluster import connected
        from bispectral_ot.files import to_json, write_json
        from bispectral_ot.runs import run_record

        start = time.perf_counter()
        self.check()
        with (
            shown_warnings() as told,
            connected(self.machine.scheduler) as engine,
            self.folder() as folder,
            progress_bars(quiet=self.output.quiet),
        ):
            result = self.work(folder, Context(engine, told))
            cluster = {"cluster": engine.record()} if engine else {}
            write_json(folder / "run.json", run_record(self.config, seconds=time.perf_counter() - start) | cluster)
            write_json(folder / "results.json", {**result.content, "warnings": told})  # the page shows warnings
            if isinstance(self.output, ReportOptions) and self.output.report:
                from bispectral_ot.report.page import write_report
                from bispectral_ot.report.run_folder import decorate

                decorate({"report.html": lambda: write_report(folder)})
            content = {**result.content, "warnings": told}
            write_json(folder / "results.json", content)
        with printing():
            if self.output.as_json:
                typer.echo(to_json({"run": str(self.out), **content}))
            elif not self.output.quiet:
                result.show()
        if not result.converged:
            raise typer.Exit(1)

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Folder to write to, which becomes the run at the end."""
        from bispectral_ot.runs import new_run

        options = {"inputs": self.inputs, "overwrite": self.output.overwrite}
        with new_run(self.out, verb=self.verb, **options) as folder:  # type: ignore[arg-type]
            yield folder
