"""What ``bispectral-ot upright`` writes and prints."""

import json

import numpy as np
import pytest
from PIL import Image

from bispectral_ot import load, split_halves
from bispectral_ot.poses import turn_image
from report_runs import read_csv


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """Digits 1, 4 and 7 as files of 40 x 40 pixels and 16 bits, one folder turned by known angles, one upright."""
    folder, digits = tmp_path_factory.mktemp("scans"), load("digits", resize=40)
    kept = np.isin(digits.labels, [1, 4, 7])
    turned, upright = split_halves(digits.select(kept), per_class=20)
    angles = np.random.default_rng(0).uniform(-180, 180, len(turned))
    truth = {}
    for side, name in ((turned, "turned"), (upright, "upright")):
        for number, (image, label) in enumerate(zip(side.images, side.labels, strict=True)):
            pixels = image.astype(np.uint16) * 257
            if name == "turned":
                pixels = turn_image(pixels, angles[number])
            file = f"{side.classes[label]}/{number}.png"
            (folder / name / file).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(folder / name / file)
            truth[name, file] = angles[number]
    return folder, truth


@pytest.fixture(scope="module")
def run(program, scans):
    folder, _ = scans
    out = folder / "run"
    outcome = program("upright", folder / "turned", folder / "upright", "--resize", "20", "--out", out, "--report")
    assert outcome.code == 0, outcome.stderr
    return out, outcome


def test_files_are_turned_back_or_set_aside(run, scans):
    out, _ = run
    folder, truth = scans
    rows = read_csv(out / "poses.csv")
    columns = ["source", "file", "angle", "fit", "score", "uncertainty", "ambiguous", "runner_up_angle"]
    assert (list(rows[0]), len(rows)) == (columns, 60)
    errors = []
    for row in rows:
        place = "ambiguous" if row["ambiguous"] == "true" else "upright"
        with Image.open(out / place / row["file"]) as image:
            assert (image.mode, image.size) == ("I;16", (40, 40))
            pixels = np.asarray(image)
        original = np.asarray(Image.open(folder / "turned" / row["file"]))
        if place == "ambiguous":
            np.testing.assert_array_equal(pixels, original)
            continue
        expected = turn_image(original, float(row["angle"]))
        assert np.abs(pixels.astype(float) - expected).max() < 0.02 * 65535  # angles are rounded in the table
        error = float(row["angle"]) + truth["turned", row["file"]]
        errors.append(abs((error + 180) % 360 - 180))
    assert len(errors) > 20
    assert np.mean(np.array(errors) < 30) > 0.85


def test_the_run_has_what_a_match_has_and_more(run):
    out, outcome = run
    written = {path.name for path in out.iterdir()}
    assert {"matches.csv", "poses.csv", "results.json", "upright", "report.html"} <= written
    results = json.loads((out / "results.json").read_text())
    assert results["poses"]["certain"] == results["upright"]["upright"]
    assert results["poses"]["unit"] == "degrees"
    assert all(words in outcome.stdout for words in ("certain (90% interval", "images rotated"))
    assert '"poses":[[' in (out / "report.html").read_text()


def test_sources_without_files_become_one_array(program, sets, tmp_path):
    run = tmp_path / "run"
    words = ("upright", sets / "a.npz", sets / "b.npz", "--expand", "--include-ambiguous", "--json")
    outcome = program(*words, "--out", run)
    assert outcome.code == 0, outcome.stderr
    assert outcome.json["upright"] == {"upright.npz": 12, "ambiguous": 0}
    again = load(run / "upright.npz")
    assert again.images.shape == (12, 18, 18)
    assert again.classes == load(sets / "a.npz").classes


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--fill", "white"], "'--fill': Input should be a valid number"),
        (["--features", "pixels"], "not rotation invariant"),
    ],
)
def test_bad_options_are_refused_in_one_line(program, sets, tmp_path, words, said):
    outcome = program("upright", sets / "a.npz", sets / "b.npz", *words, "--out", tmp_path / "run", "--quiet")
    assert outcome.code == 2
    assert said in outcome.stderr
    assert not (tmp_path / "run").exists()
