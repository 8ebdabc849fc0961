"""Results as tables: plain data for JSON, Markdown for the terminal and the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Table:
    """One table of results.

    Attributes
    ----------
    title : what was measured
    note : how to read it
    columns : names of the columns; ``ratio`` is always "this method's time / ours"
    rows : a dict for each row, by column
    skipped : methods that could not run, and why
    digits : significant digits of fractions
    """

    title: str
    note: str
    columns: Sequence[str]
    rows: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    digits: int = 3

    def markdown(self) -> str:
        """The table under its title and its note."""
        lines = ["| " + " | ".join(self.columns) + " |"]
        lines.append("|" + "|".join("---" if self._is_text(name) else "---:" for name in self.columns) + "|")
        lines += ["| " + " | ".join(self._cells(row)) + " |" for row in self.rows]
        return "\n".join([f"**{self.title}**", "", self.note, "", *lines, *self._skipped_lines()]) + "\n"

    def _skipped_lines(self) -> list[str]:
        return ["", "Skipped: " + "; ".join(self.skipped) + "."] if self.skipped else []

    def _is_text(self, column: str) -> bool:
        return bool(self.rows) and isinstance(self.rows[0].get(column), str)

    def _cells(self, row: dict[str, Any]) -> list[str]:
        return [_cell(name, row.get(name), digits=self.digits) for name in self.columns]


def provenance_sentence(record: dict[str, Any]) -> str:
    """Where the tables of a benchmark's record come from."""
    machine, config = record["machine"], record["config"]
    # neither is known of the oldest
    taken = f", {record['wall_seconds']:.0f} s" if "wall_seconds" in record else ""
    load = f" (load {config['load']:.1f} at the start)" if "load" in config else ""
    versions = {"Python": record["python"], **record["libraries"], **config["peers"]}
    return (
        f"Measured on {record['date'][:10]} with bispectral-ot {record['bispectral_ot']} on {machine['processor']}, "
        f"{machine['cores']} cores{load}, {machine['memory_bytes'] / 1e9:.0f} GB; digits: {config['dataset']}; "
        f"`{config['command']}`{taken}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items() if version)
        + "."
    )


def _cell(column: str, value: Any, *, digits: int) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if column == "ratio":
        return f"{value:.2f}x" if value < 10 else f"{value:,.0f}x"
    if isinstance(value, int):
        return f"{value:,}"
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.1e}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.{digits}g}"
