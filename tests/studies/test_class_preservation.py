"""The paper's experiment: its choices, its cells, and what is kept of them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot import runtime
from bispectral_ot.datasets import rotate
from bispectral_ot.errors import DataWarning
from studies import preset as preset_module
from studies.class_preservation import run_class_preservation
from studies.preset import Preset

DIGITS = bot.load("digits")
SMALL = Preset(per_class=5)


def run(out: Path, **options: Any) -> list[dict[str, Any]]:
    defaults: dict[str, Any] = {"features": ["ring-bispectrum"], "metrics": ["l1", "cosine"], "settings": ["rotated"]}
    return run_class_preservation(out, ["digits"], **(defaults | {"preset": SMALL} | options))


def test_the_paper_normalizes_first_and_leaves_corners_at_zero() -> None:
    a, b = Preset(per_class=20).halves(DIGITS, "rotated")
    upright, other = bot.split_halves(bot.normalize(DIGITS), seed=0, per_class=20)
    angles = np.random.default_rng(0).uniform(0, 360, len(a))
    np.testing.assert_array_equal(a.images, rotate(upright.images, angles, fill=0.0).images)
    np.testing.assert_array_equal(b.images, other.images)
    np.testing.assert_array_equal(Preset(per_class=20).halves(DIGITS, "baseline")[0].images, upright.images)


def test_a_cell_is_what_the_parts_give(tmp_path: Path) -> None:
    (cell,) = run(tmp_path, metrics=["l1"])
    a, b = bot.split_halves(bot.normalize(DIGITS), seed=0, per_class=5)
    a = bot.rotate_randomly(a, seed=0, fill=0.0)
    plain = bot.Dataset(b.images)  # without labels: neither a learned metric nor calibrated probabilities
    features = bot.RingBispectrum(sampling="nearest")
    match = bot.match(a, plain, features=features, normalize=False, marginals="balanced")
    expected = bot.class_preservation(match, a.labels, b.labels)
    assert cell["accuracy"] == expected.accuracy
    assert cell["confusion"] == expected.confusion.tolist()
    assert cell["transport_cost"] == pytest.approx(match.distance, rel=1e-6)
    assert cell["recall"] == pytest.approx(np.diag(expected.confusion) / 5)
    assert (tmp_path / "figures" / "confusion-digits-rotated-ring-bispectrum-l1.png").is_file()
    record = json.loads((tmp_path / "run.json").read_text())
    assert (record["config"]["verb"], record["config"]["per_class"]) == ("study class-preservation", 5)


def test_an_interrupted_run_is_resumed_and_a_damaged_cell_is_computed_again(tmp_path: Path, monkeypatch) -> None:
    measured: list[str] = []
    measure = preset_module.measure

    def counted(*args: Any, **options: Any) -> Any:
        measured.append(args[3]["metric"])
        return measure(*args, **options)

    monkeypatch.setattr(preset_module, "measure", counted)

    def interrupt(stage: str, done: int, total: int) -> None:
        if (stage, done) == ("cells", 1):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), runtime.running(progress=interrupt):
        run(tmp_path)
    assert len(json.loads((tmp_path / "results.json").read_text())["cells"]) == 1
    assert len(run(tmp_path)) == 2
    assert measured == ["l1", "cosine"]
    assert len(list((tmp_path / "figures").glob("*.png"))) == 2
    for path in (tmp_path / "cells").iterdir():
        path.write_bytes(path.read_bytes()[:100])
    with pytest.warns(DataWarning, match="cannot be read"):
        run(tmp_path)
    assert measured == ["l1", "cosine"] * 2


def test_another_call_adds_cells_and_other_choices_replace_them_in_the_table(tmp_path: Path) -> None:
    run(tmp_path, metrics=["l1"])
    cells = run(tmp_path, metrics=["l2"], settings=["baseline"])
    assert {(cell["metric"], cell["setting"]) for cell in cells} == {("l1", "rotated"), ("l2", "baseline")}
    cells = run(tmp_path, metrics=["l1"], preset=Preset(per_class=5, seed=3))
    assert {(cell["metric"], cell["config"]["seed"]) for cell in cells} == {("l1", 3), ("l2", 0)}
    assert (tmp_path / "table1.md").is_file()
    assert (tmp_path / "table2.md").is_file()


def test_classes_keep_the_order_of_the_dataset(tmp_path: Path) -> None:
    labels = np.repeat(np.arange(12), 6)  # "10" and "11" come before "2" in the alphabet
    images = (labels[:, None, None] * 15 + np.random.default_rng(0).integers(0, 80, (72, 6, 6))).astype(np.uint8)
    np.savez(tmp_path / "twelve.npz", images=images, labels=labels)
    options: dict[str, Any] = {"features": ["pixels"], "metrics": ["l2"], "settings": ["baseline"]}
    (cell,) = run_class_preservation(tmp_path / "out", [str(tmp_path / "twelve.npz")], **options)
    assert cell["classes"] == [str(label) for label in range(12)]
