"""Poses in tables and figures."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import bispectral_ot as bot
from bispectral_ot.datasets import synthetic_shapes
from bispectral_ot.report.pose_figures import ambiguous_figure, angles_figure, poses_figure
from bispectral_ot.report.pose_tables import pose_rows, pose_summary
from bispectral_ot.report.tables import Side


@pytest.fixture(scope="module")
def digits():
    return bot.split_halves(bot.load("digits"), per_class=8)


def drawn(figure):
    """The figure as it comes out, so that nothing about it fails."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


@pytest.mark.parametrize("symmetry", ["rotation", "rotation-reflection", "d4", "translation"])
def test_every_symmetry_has_its_table_and_figures(digits, symmetry):
    source, target = digits
    poses = bot.match(source, target, symmetry=symmetry).poses()
    header, rows = pose_rows(poses, Side.whole(source))
    columns = {
        "rotation": ["angle"],
        "rotation-reflection": ["angle", "mirrored"],
        "d4": ["angle", "mirrored"],
        "translation": ["down", "right"],
    }[symmetry]
    assert header == [
        "source",
        *columns,
        "fit",
        "score",
        "uncertainty",
        "ambiguous",
        *(f"runner_up_{name}" for name in columns),
    ]
    assert [len(row) for row in rows] == [len(header)] * 80
    for figure in (poses_figure(poses, source, target), ambiguous_figure(poses, source, target)):
        assert drawn(figure).std() > 5
    summary = pose_summary(poses)
    assert summary["certain"] + summary["ambiguous"] + summary["without"] == 80
    assert summary["unit"] == ("pixels" if symmetry == "translation" else "degrees")
    if poses.angles is not None:
        names = np.asarray(source.classes)[source.labels]
        assert len(angles_figure(poses, names).axes) == 11
        assert len(angles_figure(poses, None).axes) == 1


def test_rotations_in_space_have_quaternions():
    shapes = synthetic_shapes(4, turned=True, seed=0)
    poses = bot.match(shapes, shapes, symmetry="so3-shapes").poses(2)
    header, rows = pose_rows(poses, Side.whole(shapes))
    assert header[1:5] == ["x", "y", "z", "w"]
    written = Rotation.from_quat([[float(value) for value in row[1:5]] for row in rows])
    assert np.degrees((written * poses.rotations.inv()).magnitude()).max() < 0.01
    assert drawn(poses_figure(poses, shapes, shapes)).std() > 5


def test_what_is_not_known_is_left_empty(digits):
    source, target = digits
    images = source.images.copy()
    images[0] = 0
    with pytest.warns(bot.DataWarning):
        poses = bot.match(images, target, solver="exact").poses()
    header, rows = pose_rows(poses, Side.whole(bot.Dataset(images)))
    first = dict(zip(header, rows[0], strict=True))
    assert first["angle"] == first["fit"] == first["score"] == first["uncertainty"] == ""
    assert first["ambiguous"] == "yes"
    assert pose_summary(poses)["median_uncertainty"] is None
    assert pose_summary(poses)["without"] == 1
