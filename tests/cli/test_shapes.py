"""Folders of shapes in 3-D through the program."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bispectral_ot.report.page_data import load_page_data
from studies.synthetic_shapes import CLASSES

trimesh = pytest.importorskip("trimesh")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("parts")
    random = np.random.default_rng(0)
    for name in ("box", "torus", "jack"):
        (path / name).mkdir()
        for number in range(4):
            trimesh.Trimesh(*CLASSES[name](random), process=False).export(path / name / f"{number}.off")
    return path


def test_a_folder_of_meshes_is_matched_and_reported(program, folder: Path, tmp_path: Path):
    out = tmp_path / "run"
    outcome = program("match", folder, folder, "--split-halves", "--report", "--out", out, "--quiet")
    assert outcome.code == 0, outcome.stderr
    results = json.loads((out / "results.json").read_text("utf-8"))
    assert results["settings"]["symmetry"] == "so3-shapes"
    assert results["accuracy"] == 1.0
    assert load_page_data(out / "page-data.json")["sheet"]["type"] == "image/png"
    assert (out / "report.html").stat().st_size > 10_000
