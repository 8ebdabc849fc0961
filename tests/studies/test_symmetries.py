from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bispectral_ot as bot
from studies.symmetries import EXPERIMENTS, run_symmetries, turn_and_mirror, turn_shapes
from studies.synthetic_shapes import synthetic_shapes


def run(out: Path, **options: Any) -> list[dict[str, Any]]:
    defaults: dict[str, Any] = {"dataset": "digits", "metrics": ["l2"], "per_class": 5, "shapes": 4}
    return run_symmetries(out, **(defaults | options))


def test_every_symmetry_with_raw_signals_and_invariants(tmp_path: Path) -> None:
    cells = run(tmp_path)
    assert cells == json.loads((tmp_path / "results.json").read_text())["cells"]
    found = {(c["config"]["symmetry"], c["features"], c["setting"]): c for c in cells}
    assert len(found) == 2 * sum(len(experiment.features) for experiment in EXPERIMENTS.values())
    for symmetry, experiment in EXPERIMENTS.items():
        raw, invariant = next(iter(experiment.features)), list(experiment.features)[-1]
        baseline, turned = (found[symmetry, invariant, setting]["accuracy"] for setting in ("baseline", "turned"))
        assert turned > found[symmetry, raw, "turned"]["accuracy"]
        # on the sphere a turned digit is sampled anew; the other two are exact
        assert turned == pytest.approx(baseline, abs=0.1 if symmetry == "so3" else 1e-9)
    assert all(cell["converged"] for cell in cells)
    table = (tmp_path / "table.md").read_text()
    assert "| digits, on the sphere, turned in 3-D: SO(3) bispectrum | 50 x 50 | 121 |" in table
    assert table.count("\n| ") == 2 + 8  # header, rule, a row for each kind of features


def test_a_cell_is_what_match_gives(tmp_path: Path) -> None:
    cells = run(tmp_path, only=["so3-shapes"])
    (cell,) = (c for c in cells if (c["features"], c["setting"]) == ("shell-bispectrum", "turned"))
    a, b = bot.split_halves(synthetic_shapes(8, turned=False, seed=0), seed=0)
    match = bot.match(
        turn_shapes(a, 0),
        b,
        symmetry="so3-shapes",
        metric="l2",
        normalize=False,
        marginals="balanced",
        metric_learning="none",
    )
    assert cell["transport_cost"] == pytest.approx(match.distance, rel=1e-5)
    # the cell gives each source the class with most of its mass, as the paper does; a match its most probable class
    assert cell["accuracy"] == pytest.approx(bot.class_preservation(match, a.labels, b.labels).accuracy, abs=0.05)


def test_every_element_of_d4_is_used_and_no_pixel_is_lost() -> None:
    image = np.arange(9, dtype=np.float32).reshape(3, 3)
    moved = turn_and_mirror(bot.Dataset(np.stack([image] * 200), name="one"), 0).images
    assert len(np.unique(moved.reshape(200, 9), axis=0)) == 8
    assert (np.sort(moved.reshape(200, 9), axis=1) == np.arange(9)).all()


def test_shapes_are_turned_and_not_mirrored_or_bent() -> None:
    shapes = synthetic_shapes(1, turned=False, n_points=20)
    turned = turn_shapes(shapes, 3).images
    before, after = (images[:, :, None] - images[:, None] for images in (shapes.images, turned))
    np.testing.assert_allclose(np.linalg.norm(after, axis=-1), np.linalg.norm(before, axis=-1), atol=1e-5)
    volumes = [np.linalg.det((images - images[:, :1])[:, 1:4].astype(np.float64)) for images in (shapes.images, turned)]
    np.testing.assert_allclose(volumes[1], volumes[0], atol=1e-5)
