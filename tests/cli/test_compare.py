"""What ``bispectral-ot compare`` writes and prints."""

from __future__ import annotations

import csv
import json

import numpy as np
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
    outcome = program(
        *words, "--permutations", "19", "--bootstrap", "40", "--labels", "--report", "--out", out, figures=True
    )
    assert outcome.code == 0, outcome.stderr
    return out, outcome, words


def test_a_run_has_its_files(run):
    out, outcome, _ = run
    assert sorted(path.name for path in out.iterdir()) == [
        *("cells", "class-distances.csv", "classes.csv", "contributors.csv"),
        *("distances.csv", "figures", "page-data.json", "report.html", "results.json", "run.json"),
    ]
    pictures = sorted(path.name for path in (out / "figures").iterdir())
    assert pictures == ["distances.png"]
    for name in pictures:
        with Image.open(out / "figures" / name) as picture:
            assert np.asarray(picture.convert("L")).std() > 3
    assert "second" in outcome.stdout


def test_results_and_tables_agree(run):
    out, _, _ = run
    results = json.loads((out / "results.json").read_text("utf-8"))
    assert results["names"] == ["one", "second", "noise"]
    distances = np.array(results["distances"])
    np.testing.assert_array_equal(distances, distances.T)
    with open(out / "distances.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["distance"]) for row in rows] == [distances[0, 1], distances[0, 2], distances[1, 2]]
    assert all(float(row["low"]) < float(row["distance"]) < float(row["high"]) for row in rows)
    with open(out / "classes.csv", newline="", encoding="utf-8") as file:
        parts = [row for row in csv.DictReader(file) if row["target"] == "second"]
    assert sum(float(row["contribution"]) for row in parts) == pytest.approx(distances[0, 1])


def test_the_page_shows_every_pair_and_is_made_again(run, program):
    out, _, _ = run
    content = page_content(out / "report.html")
    assert content["title"] == "Comparison of datasets"
    assert content["comparison"]["names"] == ["one", "second", "noise"]
    results = json.loads((out / "results.json").read_text("utf-8"))
    expected = [pair["distance"] for pair in results["pairs"]]
    np.testing.assert_allclose([pair["distance"] for pair in content["comparison"]["pairs"]], expected, rtol=1e-4)
    (out / "report.html").unlink()
    assert program("report", out).code == 0
    assert page_content(out / "report.html") == content


def test_sets_in_another_order_have_the_same_distances(run, program):
    out, _, words = run
    before = json.loads((out / "results.json").read_text("utf-8"))
    options = ("--permutations", "19", "--bootstrap", "40", "--labels", "--no-figures", "--json", "--out", out)
    after = program(words[0], words[3], words[1], words[2], *options).json
    order = [before["names"].index(name) for name in after["names"]]
    assert order == [2, 0, 1]
    for name in ("distances", "errors", "p_values", "intervals", "references"):
        np.testing.assert_array_equal(
            np.array(after[name], float), np.array(before[name], float)[np.ix_(order, order)], err_msg=name
        )
    assert program(*words, *options).code == 0


def test_other_options_are_refused_in_the_same_folder(run, program):
    out, _, words = run
    outcome = program(*words, "--permutations", "39", "--out", out)
    assert outcome.code == 2
    assert "other sets or options" in outcome.complaint
    assert json.loads((out / "run.json").read_text("utf-8"))["config"]["permutations"] == 19


def test_symmetry_tests_are_summed_up_in_a_sentence(program, files, tmp_path):
    words = ("compare", files / "one.npz", files / "two.npz", "--symmetry-tests")
    outcome = program(*words, "--out", tmp_path / "run")
    assert outcome.code == 0, outcome.stderr
    results = json.loads((tmp_path / "run" / "results.json").read_text("utf-8"))
    assert list(results["symmetry_tests"][0]["p_values"])[:2] == ["nothing", "intensity"]
    assert results["symmetry_tests"][0]["sentence"] in outcome.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["one.npz"], "at least two datasets"),
        (["one.npz", "one.npz"], "two sets are called"),
        (["one.npz", "two.npz", "--permutations", "3"], "19 at least"),
        (["one.npz", "two.npz", "--reg", "-1"], "reg must be"),
        (["one.npz", "missing.npz"], "missing.npz"),
    ],
)
def test_bad_input_is_one_line(program, files, tmp_path, words, message):
    given = [files / word if word.endswith(".npz") else word for word in words]
    outcome = program("compare", *given, "--out", tmp_path / "run")
    assert outcome.code == 2
    assert message in outcome.complaint


def test_a_comparison_is_repeated_from_its_run_json(program, run, tmp_path):
    out, _, _ = run
    outcome = program("compare", "--config", out, "--no-figures", "--out", tmp_path / "again", "-q")
    assert (outcome.code, outcome.stderr) == (0, "")
    before, again = (json.loads((folder / "results.json").read_text("utf-8")) for folder in (out, tmp_path / "again"))
    assert again["names"] == before["names"]
    # with --labels the digits after the eighth differ from run to run
    np.testing.assert_allclose(again["distances"], before["distances"], rtol=1e-6, atol=1e-9)
    assert not (tmp_path / "again" / "figures").exists()
