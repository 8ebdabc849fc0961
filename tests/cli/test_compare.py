"""What ``bispectral-ot compare`` writes and prints."""

import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from report_runs import page_content


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Three small sets: two of shapes, one of noise."""
    folder = tmp_path_factory.mktemp("compared")
    from bispectral_ot import load, split_halves

    halves = split_halves(load("digits"), per_class=8)
    for name, half in zip(("one", "two"), halves, strict=True):
        np.savez(folder / f"{name}.npz", images=half.images, labels=half.labels)
    noise = np.random.default_rng(0).integers(0, 17, size=(40, 8, 8)).astype(np.uint8)
    np.savez(folder / "noise.npz", images=noise, labels=np.arange(40) % 2)
    return folder


@pytest.fixture(scope="module")
def run(program, files, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "three"
    words = ("compare", files / "one.npz", f"second={files / 'two.npz'}", files / "noise.npz")
    options = ("--permutations", "19", "--bootstrap", "40", "--labels", "--report")
    outcome = program(*words, *options, "--out", out, figures=True)
    assert outcome.code == 0, outcome.stderr
    return out, outcome, words


def results(folder):
    return json.loads((folder / "results.json").read_text("utf-8"))


def test_a_run_has_its_files_and_they_agree(run, program):
    out, outcome, _ = run
    assert sorted(path.name for path in out.iterdir()) == [
        *("classes.csv", "contributors.csv", "distances.csv"),
        *("figures", "page-data.json", "report.html", "results.json", "run.json"),
    ]
    with Image.open(out / "figures" / "distances.png") as picture:
        assert np.asarray(picture.convert("L")).std() > 3
    assert "second" in outcome.stdout
    assert not out.with_name("three.cells").exists()
    found = results(out)
    assert found["names"] == ["one", "second", "noise"]
    distances = np.array(found["distances"])
    np.testing.assert_array_equal(distances, distances.T)
    rows = pd.read_csv(out / "distances.csv")
    np.testing.assert_allclose(rows.distance, [distances[0, 1], distances[0, 2], distances[1, 2]], rtol=1e-5)
    assert ((rows.low < rows.distance) & (rows.distance < rows.high)).all()
    parts = pd.read_csv(out / "classes.csv")
    assert parts[parts.target == "second"].contribution.sum() == pytest.approx(distances[0, 1])
    content = page_content(out / "report.html")
    assert content["title"] == "Comparison of datasets"
    expected = [pair["distance"] for pair in found["pairs"]]
    np.testing.assert_allclose([pair["distance"] for pair in content["comparison"]["pairs"]], expected, rtol=1e-4)
    (out / "report.html").unlink()
    assert program("report", out).code == 0
    assert page_content(out / "report.html") == content


def test_an_interrupted_comparison_is_resumed_and_says_so(program, files, tmp_path, monkeypatch):
    words = ("compare", files / "one.npz", files / "two.npz", "--symmetry-tests", "--out", tmp_path / "run")
    with monkeypatch.context() as broken:
        broken.setattr("bispectral_ot.report.run_folder.write_comparison", None)
        assert program(*words).code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["run.cells"]
    outcome = program(*words)
    assert outcome.code == 0, outcome.stderr
    said = outcome.stderr.strip()
    assert said.startswith("resumed: ")
    assert json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))["messages"] == [said]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    tested = results(tmp_path / "run")["symmetry_tests"][0]
    assert list(tested["p_values"])[:2] == ["nothing", "intensity"]
    assert tested["sentence"] in outcome.stdout
    outcome = program("compare", "--config", tmp_path / "run", "--overwrite", "--out", tmp_path / "run", "-q")
    assert (outcome.code, outcome.stderr) == (0, "")
