"""The notebook of the docs runs, in a kernel of its own, and says what it said."""

import copy
import os
import re
import runpy
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import bispectral_ot

NUMBER = re.compile(r"\d+\.?\d*")
DOCS = Path(__file__).resolve().parents[1] / "docs"


def printed(cell: dict) -> str:
    return "".join(output["text"] for output in cell.get("outputs", ()) if output.get("name") == "stdout")


@pytest.fixture(scope="module")
def stored():
    return nbformat.read(DOCS / "notebook.ipynb", as_version=4)


def test_the_notebook_is_the_one_of_its_script(stored):
    made = runpy.run_path(str(DOCS / "make_notebook.py"))["notebook"]()
    assert [cell.source for cell in stored.cells] == [cell.source for cell in made.cells], "run docs/make_notebook.py"
    nbformat.validate(stored)
    assert (DOCS / "notebook.ipynb").stat().st_size < 400_000
    assert all(cell.execution_count for cell in stored.cells if cell.cell_type == "code")


def test_the_notebook_runs_and_prints_the_same(stored, tmp_path, monkeypatch):
    path = os.pathsep.join([str(Path(bispectral_ot.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    run, before = copy.deepcopy(stored), [printed(cell) for cell in stored.cells]
    NotebookClient(run, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    for now, then in zip((printed(cell) for cell in run.cells), before, strict=True):
        assert NUMBER.sub("", now) == NUMBER.sub("", then)
        numbers, expected = ([float(n) for n in NUMBER.findall(text)] for text in (now, then))
        assert numbers == pytest.approx(expected, rel=0.1)  # other machines round otherwise
    kinds = [set(output.get("data", ())) for cell in run.cells for output in cell.get("outputs", ())]
    assert sum("text/html" in kind for kind in kinds) >= 3  # a set, a match, a comparison
    assert sum("image/png" in kind for kind in kinds) == 3
