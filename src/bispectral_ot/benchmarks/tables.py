"""Results as tables: plain data for JSON, Markdown for the documentation, and a picture for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table as RichTable


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
    """

    title: str
    note: str
    columns: Sequence[str]
    rows: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """The table for the documentation."""
        lines = ["| " + " | ".join(self.columns) + " |"]
        lines.append("|" + "|".join("---" if self._is_text(name) else "---:" for name in self.columns) + "|")
        lines += ["| " + " | ".join(self._cells(row)) + " |" for row in self.rows]
        return "\n".join([f"**{self.title}**", "", self.note, "", *lines, *self._skipped_lines()]) + "\n"

    def rich(self) -> RichTable:
        """The table for the terminal."""
        from rich.table import Table as RichTable

        caption = " ".join([self.note, *self._skipped_lines()])
        table = RichTable(title=self.title, caption=caption, title_justify="left", caption_justify="left")
        for name in self.columns:
            table.add_column(name, justify="left" if self._is_text(name) else "right")
        for row in self.rows:
            table.add_row(*self._cells(row))
        return table

    def _skipped_lines(self) -> list[str]:
        return ["", "Skipped: " + "; ".join(self.skipped) + "."] if self.skipped else []

    def _is_text(self, column: str) -> bool:
        return bool(self.rows) and isinstance(self.rows[0].get(column), str)

    def _cells(self, row: dict[str, Any]) -> list[str]:
        return [_cell(name, row.get(name)) for name in self.columns]


def tables_as_markdown(record: dict[str, Any]) -> str:
    """All tables of a run record, under a paragraph that says where they come from."""
    machine, config = record["machine"], record["config"]
    versions = {"Python": record["python"], **record["libraries"], **config["peers"]}
    lines = [
        f"Measured on {record['date'][:10]} with bispectral-ot {record['bispectral_ot']} on {machine['processor']}, "
        f"{machine['cores']} cores, {machine['memory_bytes'] / 1e9:.0f} GB; data: {config['dataset']}; "
        f"`{config['command']}`, {record['wall_seconds']:.0f} s.",
        "",
        ", ".join(f"{name} {version}" for name, version in versions.items() if version) + ".",
        "",
    ]
    for tables in record["tables"].values():
        for data in tables:
            lines.append(Table(**data).markdown())
    return "\n".join(lines)


def _cell(column: str, value: Any) -> str:
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
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
