import json

import numpy as np
import pytest

import bispectral_ot as bot
from studies.symmetries import EXPERIMENTS, run_symmetries, turn_and_mirror


def run(out, **options):
    defaults = {"dataset": "digits", "metrics": ["l2"], "per_class": 5, "shapes": 4}
    return run_symmetries(out, **(defaults | options))


def test_every_symmetry_with_raw_signals_and_invariants(tmp_path):
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


def test_every_element_of_d4_is_used_and_no_pixel_is_lost():
    image = np.arange(9, dtype=np.float32).reshape(3, 3)
    moved = turn_and_mirror(bot.Dataset(np.stack([image] * 200), name="one"), 0).images
    assert len(np.unique(moved.reshape(200, 9), axis=0)) == 8
    assert (np.sort(moved.reshape(200, 9), axis=1) == np.arange(9)).all()
