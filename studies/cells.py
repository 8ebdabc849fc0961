"""Cells of a study, computed and saved one by one: what is done already is not done again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bispectral_ot import runtime
from bispectral_ot.engines.cluster import as_engine
from bispectral_ot.errors import InputError, RunExistsError
from bispectral_ot.files import write_json
from bispectral_ot.runs import check_resumable, resumed_run
from studies.experiment import CellGroup, Config, Inspect, compute_cells

Report = Callable[[dict[str, Any]], None]
# What tables and figures read of a cell.
_ENTRIES = {
    **dict.fromkeys(("dataset", "features", "metric", "setting"), str),
    **dict.fromkeys(("n_source", "n_target", "columns"), int),
    **dict.fromkeys(("accuracy", "transport_cost", "marginal_error"), (int, float)),
    **dict.fromkeys(("classes", "recall", "confusion"), list),
    "converged": bool,
    "seconds": dict,
}


@dataclass(frozen=True)
class CellStore:
    """The folder of a study, whose cells are in ``cells/``: one JSON file each, whole or absent.

    A cell is a dict whose ``config`` decides its result; some entries of it name the file. A folder that is not
    this study's own is refused when the store is made.

    Attributes
    ----------
    folder : of the study
    verb : of the program, such as ``"study class-preservation"``
    outputs : what the study writes to its folder in addition to cells, ``run.json`` and the report
    names : entries of a config that name its cell
    entries : what every cell must have, and of which types
    """

    folder: Path
    verb: str
    outputs: tuple[str, ...]
    names: tuple[str, ...] = ("dataset", "setting", "features", "metric")
    entries: Mapping[str, Any] = field(default_factory=lambda: _ENTRIES)

    def __post_init__(self) -> None:
        """Refuse a folder that holds something else, or a damaged cell, before the first hour is spent."""
        outputs = ("cells", "report", "report.html", *self.outputs)
        check_resumable(self.folder, verb=self.verb, outputs=outputs)
        for path in (self.folder / name for name in outputs):
            if path.exists() and path.is_dir() != (not path.suffix):
                expected, found = ("folder", "file") if path.is_file() else ("file", "folder")
                raise RunExistsError(f"{path} is a {found}, but it should be a {expected}; move it away to continue.")
        self.all()

    def run(
        self,
        groups: list[CellGroup],
        *,
        overwrite: bool = False,
        working_memory: str | int | float | None = None,
        client: Any = None,
        inspect: Inspect = lambda match, a, b, config: None,
        summarise: Callable[[], None] = lambda: None,
        report: Report = lambda cell: None,
    ) -> Iterator[CellGroup]:
        """Compute what is missing, and give each group once all of its cells are saved.

        All groups are looked at before this returns, so that nothing is refused after an hour. After each cell it
        is saved, ``summarise()``, ``runtime.progress("cells", done, total)`` and ``report(cell)`` are called; for
        ``working_memory`` and ``inspect`` see :func:`~studies.experiment.compute_cells`.
        """
        engine = as_engine(client)
        missing: list[list[Config]] = []
        pending: set[str] = set()
        for group in groups:
            wanted = [config for config in group.configs if self.find(config, overwrite=overwrite) is None]
            missing.append([config for config in wanted if self.name(config) not in pending])
            pending |= {self.name(config) for config in wanted}

        def work() -> Iterator[CellGroup]:
            total = sum(len(group.configs) for group in groups)
            done = total - len(pending)
            runtime.progress("cells", done, total)
            for group, configs in zip(groups, missing, strict=True):
                options: dict[str, Any] = {"working_memory": working_memory, "inspect": inspect}
                for cell in compute_cells(group, configs, engine=engine, **options) if configs else ():
                    self.save(cell)
                    summarise()
                    done += 1
                    runtime.progress("cells", done, total)
                    report(cell)
                yield group

        return work()

    def recorded(self, options: dict[str, Any]) -> AbstractContextManager[None]:
        """Keep ``run.json`` while the block works on the folder; ``options`` are those of the call."""
        return resumed_run(self.folder, {"verb": self.verb, **options})

    def name(self, config: Config) -> str:
        """File name of a cell, without its suffix: ``mnist-rotated-ring-bispectrum-l1``."""
        return "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", str(config[key])).strip("-") for key in self.names)

    def find(self, config: Config, *, overwrite: bool = False) -> dict[str, Any] | None:
        """The saved cell of this config; None where there is none, or an outdated one that may be replaced.

        Raises
        ------
        RunExistsError
            If the saved cell was computed with another config and ``overwrite`` is not set.
        """
        path = self._path(config)
        if not path.exists():
            return None
        saved = self._read(path)
        if saved["config"] == json.loads(json.dumps(config)):
            return saved
        if overwrite:
            return None
        differing = [key for key in config if saved["config"].get(key) != config[key]]
        said = ", ".join(f"{key} = {saved['config'].get(key)!r}, not {config[key]!r}" for key in differing)
        raise RunExistsError(
            f"{path} was computed with {said}; choose another --out, ask for the same, or compute it again "
            "with --overwrite."
        )

    def read(self, config: Config) -> dict[str, Any]:
        """The saved cell of a config that has been computed."""
        return self._read(self._path(config))

    def save(self, cell: dict[str, Any]) -> None:
        """Write a cell, whole or not at all."""
        write_json(self._path(cell["config"]), cell)

    def all(self) -> list[dict[str, Any]]:
        """Every saved cell, those of earlier calls included, by name."""
        return [self._read(path) for path in sorted((self.folder / "cells").glob("[!.]*.json"))]

    def _path(self, config: Config) -> Path:
        return self.folder / "cells" / f"{self.name(config)}.json"

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            cell: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            _check_entries(cell, {**self.entries, "config": dict.fromkeys(self.names, (str, int, float))})
            if self.name(cell["config"]) != path.stem:
                raise ValueError(f"its name would be {self.name(cell['config'])}.json")
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(
                f"{path} is damaged, or not a cell of {self.verb!r} ({error}); move it away to continue: the other "
                "cells are kept, and this one is computed again."
            ) from None
        return cell


def _check_entries(content: Any, entries: Mapping[str, Any], *, what: str = "it") -> None:
    """Raise a :class:`ValueError` unless ``content`` is a dict with these entries: types, or entries of a dict."""
    if not isinstance(content, dict):
        raise ValueError(f"{what} is {type(content).__name__}, not a set of entries")
    for key, expected in entries.items():
        if key not in content:
            raise ValueError(f"{what} has no {key!r}")
        if isinstance(expected, Mapping):
            _check_entries(content[key], expected, what=repr(key))
        elif not isinstance(content[key], expected):
            raise ValueError(f"{key!r} is {type(content[key]).__name__}")
