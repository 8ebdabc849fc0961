"""The study of poses, and the methods that it compares with."""

import json

import numpy as np
import pytest

from bispectral_ot.datasets import rotate
from bispectral_ot.poses.motions import wrapped
from studies.pose_baselines import by_axes, by_phase_correlation
from studies.poses import METHODS, run_poses


def arrows(n):
    """Bars with a thick right end, on a plain background, turned by no angle."""
    y, x = np.mgrid[:33, :33] - 16.0
    bar, tip = (np.abs(y) < 2) & (np.abs(x) < 11), np.hypot(y, x - 9) < 4
    return np.broadcast_to(40 + 200.0 * (bar | tip), (n, 33, 33))


ANGLES = np.array([0.0, 30.0, 90.0, 135.0, -20.0, -110.0])


@pytest.mark.parametrize("method", ["axes", "phase"])
def test_baselines_find_turns_of_one_shape(method):
    turned, upright = rotate(arrows(6), ANGLES).images, arrows(2)
    if method == "axes":
        found = by_axes(turned, upright, np.zeros(6, dtype=int))
    else:
        pytest.importorskip("skimage")
        found = by_phase_correlation(turned, upright, np.zeros(6), np.zeros(2))
    np.testing.assert_allclose(wrapped(found + ANGLES), 0, atol=2)


def test_the_study_measures_all_methods_and_writes_its_tables(tmp_path):
    pytest.importorskip("skimage")
    results = run_poses(tmp_path / "run", ["digits"], limit=300)
    found = results["digits"]
    assert set(found["methods"]) == set(METHODS)
    vote = found["methods"]["vote"]
    assert all(vote["within_30"] >= found["methods"][other]["within_30"] for other in METHODS)
    assert vote["within_30"] > 0.7
    assert set(found["classes"]) == set("0123456789")
    assert list(found["voters"]) == [1, 3, 5, 10, 20]
    assert list(found["images"]) == [250]
    folder = tmp_path / "run"
    assert json.loads((folder / "results.json").read_text())["sets"]["digits"]["sources"] == 300
    assert "digits, principal axis" in (folder / "table.md").read_text()
    for name in ("certainty.md", "voters.md", "images.md", "classes-digits.md", "figures/upright-digits.png"):
        assert (folder / name).stat().st_size > 0
