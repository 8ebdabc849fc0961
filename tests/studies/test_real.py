"""Folders of one's own: the cells are what a match gives, and the rival is what scikit-image says."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from PIL import Image

import bispectral_ot as bot
from bispectral_ot.errors import InputError
from studies.baselines import LocalBinaryPatterns
from studies.preset import file_checksum
from studies.real import run_real


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of digits, in a folder for each of three classes."""
    digits = bot.load("digits")
    place = tmp_path_factory.mktemp("sets") / "few digits"
    for label in range(3):
        (place / str(label)).mkdir(parents=True)
        for number, image in enumerate(digits.images[digits.labels == label][:16]):
            pixels = np.kron(image * 15, np.ones((3, 3))).astype(np.uint8)
            Image.fromarray(pixels).save(place / str(label) / f"{number}.png")
    return place


def test_a_cell_for_each_figure_and_a_second_run_computes_nothing(folder, tmp_path):
    features = ["pixels", "lbp", "default", "default-translation"]
    options = {"features": features, "conditions": ["turned", "shifted"], "sizes": [24], "seeds": 2}
    cells = run_real(tmp_path / "run", [str(folder)], **options)
    assert len(cells) == 4 * 2 * 2
    assert json.loads((tmp_path / "run" / "results.json").read_text()) == json.loads(json.dumps(cells))
    found = {(c["config"]["features"], c["config"]["condition"], c["config"]["seed"]): c for c in cells}
    assert found["default", "turned", 0]["accuracy"] > found["pixels", "turned", 0]["accuracy"]
    source, target = bot.split_halves(bot.load(folder, resize=24), per_class=100, seed=1)
    match = bot.match(bot.rotate_randomly(source, seed=1), target)
    assert found["default", "turned", 1]["accuracy"] == bot.class_preservation(match).accuracy
    table = (tmp_path / "run" / "table.md").read_text()
    assert "| few digits, shifted, 24 x 24 |" in table
    assert (tmp_path / "run" / "figures" / "few digits-turned-24.png").is_file()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run" / "cells").iterdir()}
    run_real(tmp_path / "run", [str(folder)], **options)
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "run" / "cells").iterdir()}


def test_sets_without_labels_and_unknown_conditions_are_refused(folder, tmp_path):
    with pytest.raises(InputError, match="has no labels"):
        run_real(tmp_path / "flat", [str(folder / "0")], features=["pixels"], seeds=1)
    with pytest.raises(InputError, match="did you mean 'turned'"):
        run_real(tmp_path / "run", [str(folder)], conditions=["turnd"])


def test_patterns_are_histograms_that_quarter_turns_leave():
    images = np.random.default_rng(0).random((3, 20, 20, 3))
    patterns = LocalBinaryPatterns().fit(images)
    rows = patterns.transform(images)
    assert rows.shape == (3, 10 + 18 + 26 + 3 * 16)
    np.testing.assert_allclose(rows.sum(axis=1), 6, atol=1e-5)
    np.testing.assert_allclose(patterns.transform(np.rot90(images, axes=(1, 2))), rows, atol=0.02)


def test_a_folder_that_changed_is_measured_again(folder, tmp_path):
    copy = tmp_path / "set"
    shutil.copytree(folder, copy)
    options = {"features": ["pixels"], "conditions": ["upright"], "sizes": [24], "seeds": 1}
    (first,) = run_real(tmp_path / "run", [str(copy)], **options)
    Image.fromarray(np.zeros((24, 24), dtype=np.uint8)).save(copy / "0" / "0.png")
    file_checksum.cache_clear()
    (second,) = run_real(tmp_path / "run", [str(copy)], **options)
    assert second["config"]["checksum"] != first["config"]["checksum"]
    assert len(list((tmp_path / "run" / "cells").iterdir())) == 2
