"""The study of labels."""

import numpy as np
import pytest

import bispectral_ot as bot
from studies.labels import METHODS, calibration_error, run_labels, sides


def test_regimes_cut_the_classes():
    digits = bot.load("digits")
    source, target = sides(digits, 40, "opposite", 0)
    assert target.class_counts.tolist() == [40, 28, 19, 13, 9, 6, 4, 3, 2, 1]
    assert source.class_counts.tolist() == target.class_counts.tolist()[::-1]
    source, target = sides(digits, 40, "half of the classes", 0)
    assert source.class_counts.tolist() == [40] * 5 + [0] * 5
    assert target.class_counts.tolist() == [40] * 10


def test_calibration_error_by_hand():
    assert calibration_error(np.array([0.95, 0.95, 0.55]), np.array([True, False, True])) == pytest.approx(1.35 / 3)


def test_cells_tables_and_rivals(tmp_path):
    options = {"sizes": [8], "regimes": ["same", "target skewed"], "seeds": 1}
    cells = run_labels(tmp_path / "run", ["digits"], **options)
    match = bot.match(*sides(bot.load("digits"), 8, "same", 0))
    assert cells[0]["accuracy"]["default"] == bot.class_preservation(match).accuracy
    assert set(cells[0]["accuracy"]) == set(METHODS)
    assert min(cells[0]["accuracy"].values()) > 0.5
    table = (tmp_path / "run" / "table.md").read_text()
    assert "digits, 8 a class: target skewed" in table
    for name in ("calibration.md", "checked.md", "summary.md"):
        assert (tmp_path / "run" / name).stat().st_size > 0
    assert run_labels(tmp_path / "run", ["digits"], **options) == cells  # nothing is computed again
    np.save(tmp_path / "images.npy", np.zeros((4, 8, 8)))
    with pytest.raises(bot.InputError, match="has no labels"):
        run_labels(tmp_path / "other", [str(tmp_path / "images.npy")])
