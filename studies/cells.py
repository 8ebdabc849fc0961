"""Cells of a study: computed once, and kept under a hash of everything that decides their result."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

from bispectral_ot.files import to_json
from bispectral_ot.runs import check_resumable, resumed_run
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
        check_resumable(self.folder, verb=self.verb, outputs=("cells",))
        self.store = Store(self.folder / "cells")

    def cell(self, config: Config, measure: Callable[[], Cell]) -> Cell:
        """Cell of a config: what ``measure`` gives, with the seconds that it takes unless it gives these."""

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
            with suppress(OSError, ValueError, KeyError, BadZipFile):  # a damaged one is computed again when asked for
                earlier = read_record(path)
                newest[key(earlier)] = earlier
        newest |= {key(cell): cell for cell in cells}
        return [newest[name] for name in sorted(newest)]

    def recorded(self, options: Config) -> AbstractContextManager[None]:
        """Keep ``run.json`` while the block works on the folder; ``options`` are those of the call."""
        return resumed_run(self.folder, {"verb": self.verb, **options})
