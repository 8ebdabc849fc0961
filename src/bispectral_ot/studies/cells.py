"""Cells of a study, saved one by one: what is done already is not done again."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bispectral_ot.errors import InputError, RunExistsError
from bispectral_ot.runs import write_json


@dataclass(frozen=True)
class CellStore:
    """The folder ``cells/`` of a run: one JSON file per cell, each whole or absent.

    A cell is a dict whose ``config`` decides its result; some entries of it name the file.
    """

    folder: Path
    names: tuple[str, ...] = ("dataset", "setting", "features", "metric")

    def name(self, config: dict[str, Any]) -> str:
        """File name of a cell, without its suffix: ``mnist-rotated-ring-bispectrum-l1``."""
        return "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", str(config[key])).strip("-") for key in self.names)

    def find(self, config: dict[str, Any], *, overwrite: bool = False) -> dict[str, Any] | None:
        """The saved cell of this config; None where there is none, or an outdated one that may be replaced.

        Raises
        ------
        RunExistsError
            If the saved cell was computed with another config and ``overwrite`` is not set.
        """
        path = self.folder / f"{self.name(config)}.json"
        if not path.is_file():
            return None
        saved = _read(path)
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

    def save(self, cell: dict[str, Any]) -> None:
        """Write a cell, whole or not at all."""
        write_json(self.folder / f"{self.name(cell['config'])}.json", cell)

    def all(self) -> list[dict[str, Any]]:
        """Every saved cell, those of earlier calls included, by name."""
        return [_read(path) for path in sorted(self.folder.glob("[!.]*.json"))]


def _read(path: Path) -> dict[str, Any]:
    try:
        cell: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        cell["config"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a cell of a study ({error}); delete it to go on.") from None
    return cell
