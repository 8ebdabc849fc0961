"""Cells of a study: computed once, and stored under a hash of all their inputs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

from bispectral_ot.errors import InputError, RunExistsError
from bispectral_ot.files import to_json, write_json
from bispectral_ot.runs import read_record as read_run
from bispectral_ot.runs import run_record
from bispectral_ot.store import Store, read_record

Cell: TypeAlias = dict[str, Any]
Config: TypeAlias = dict[str, Any]


class CellStore:
    """Folder of a study, with its cells in ``cells/``; the folder of another run is refused.

    A cell is a dict with its ``config``, which has a checksum of the data: other options or other data are other cells.

    Parameters
    ----------
    out : folder, new or of an earlier call
    name : of the study
    """

    def __init__(self, out: str | Path, name: str) -> None:
        self.folder, self.verb = Path(out), f"study {name}"
        self._check_own()
        self.store = Store(self.folder / "cells")

    def cell(self, config: Config, measure: Callable[[], Cell]) -> Cell:
        """Cell of a config: the result of ``measure``, with the seconds that it takes unless these are included."""

        def compute() -> Cell:
            start = time.perf_counter()
            found = measure()
            seconds = time.perf_counter() - start
            plain: Cell = json.loads(to_json({"config": config, "seconds": seconds} | found))
            return plain

        return self.store.result(json.loads(to_json(config)), dict, compute)

    def with_earlier(self, cells: Sequence[Cell], names: Sequence[str]) -> list[Cell]:
        """Cells, and the newest of earlier calls that differ from all of them in these entries of their config."""

        def key(cell: Cell) -> str:
            return json.dumps([cell["config"].get(name) for name in names])

        newest: dict[str, Cell] = {}
        for path in sorted((self.folder / "cells").glob("*.npz"), key=lambda path: path.stat().st_mtime):
            with suppress(OSError, ValueError, KeyError, BadZipFile):  # a damaged cell is computed again on demand
                earlier = read_record(path)
                newest[key(earlier)] = earlier
        newest |= {key(cell): cell for cell in cells}
        return [newest[name] for name in sorted(newest)]

    def _check_own(self) -> None:
        """Refuse the folder of another run, and files of others; a damaged ``run.json`` does not cost the cells."""
        if self.folder.exists() and not self.folder.is_dir():
            raise RunExistsError(f"{self.folder} is a file; give a folder with --out.")
        record = read_run(self.folder)
        if record and record["config"]["verb"] != self.verb:
            raise RunExistsError(f"{self.folder} is a run of {record['config']['verb']!r}, not of {self.verb!r}.")
        found = {path.name for path in self.folder.iterdir()} if self.folder.exists() else set()
        foreign = sorted(name for name in found if name[0] != "." and name != "run.json")
        if not record and foreign and "cells" not in found:
            raise RunExistsError(f"{self.folder} is not a run of {self.verb!r}: it contains {', '.join(foreign[:4])}.")

    @contextmanager
    def recorded(self, options: Config) -> Iterator[None]:
        """Keep ``run.json`` while the block works on the folder; ``options`` are those of the call."""
        start, path = time.perf_counter(), self.folder / "run.json"
        config = {"verb": self.verb, **options}
        try:
            write_json(path, run_record(config, seconds=0.0))
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror or error}.") from error
        try:
            yield
        finally:
            write_json(path, run_record(config, seconds=time.perf_counter() - start))
