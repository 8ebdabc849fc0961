"""Rivals are measured once, on the same halves, and the table has a row for each."""

from __future__ import annotations

from studies.rivals import rivals_table, run_rivals


def test_every_method_is_measured_once(tmp_path):
    cells = run_rivals(tmp_path, ["digits"], per_class=6, seeds=1, network=False)
    assert len({cell["method"] for cell in cells}) == len(cells) == 6
    assert all(0 <= cell["accuracy"] <= 1 for cell in cells)
    assert run_rivals(tmp_path, ["digits"], per_class=6, seeds=1, network=False) == cells
    assert rivals_table(cells).count("\n") == (tmp_path / "table.md").read_text().count("\n") == 8
