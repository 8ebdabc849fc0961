"""Shapes in 3-D through the front doors: clouds of different sizes, and volumes."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import bispectral_ot as bot
from bispectral_ot.datasets.clouds import cloud_points
from bispectral_ot.report.page_data import load_page_data
from studies.synthetic_shapes import synthetic_shapes


def of_different_sizes(shapes, seed):
    random = np.random.default_rng(seed)
    return [cloud[: random.integers(200, 300)] for cloud in shapes.images]


@pytest.fixture(scope="module")
def sides():
    """The same shapes, turned and cut to other sizes on one side."""
    shapes = synthetic_shapes(2, n_points=300, noise=0.0, turned=False, seed=0)
    turns = Rotation.random(len(shapes), rng=np.random.default_rng(1))
    turned = [3 * turn.apply(cloud) + 5 for turn, cloud in zip(turns, of_different_sizes(shapes, 2), strict=True)]
    upright, labels = of_different_sizes(shapes, 3), [shapes.classes[label] for label in shapes.labels]
    return [bot.Dataset(side, labels, kind="clouds") for side in (turned, upright)]


def test_clouds_find_their_class_without_any_option(sides, tmp_path):
    match = bot.match(*sides)
    assert (match.settings["symmetry"], match.settings["features"]) == ("so3-shapes", "shell-bispectrum")
    assert bot.class_preservation(match).accuracy > 0.8
    page = match.save(tmp_path / "run", figures=False) / "page-data.json"
    assert load_page_data(page)["sheet"]["type"] == "image/png"


def test_lists_arrays_and_files_are_the_same_as_datasets(sides, tmp_path):
    lists = [[cloud_points(cloud) for cloud in side.images] for side in sides]
    expected = bot.match(*sides, marginals="balanced").distance
    assert bot.match(*lists, marginals="balanced").distance == pytest.approx(expected, rel=1e-6)
    arrays = [side.images for side in sides]  # padded with NaN, as an .npz may hold them
    with pytest.raises(bot.InputError, match="NaN"):
        bot.match(*arrays)
    whole = [np.stack([cloud[:200] for cloud in side]) for side in lists]
    np.save(tmp_path / "clouds.npy", whole[0])  # not reduced to 128 points, as an image would be
    assert bot.match(tmp_path / "clouds.npy", whole[1], symmetry="so3-shapes").source.images.shape == whole[0].shape
    with pytest.raises(bot.InputError, match=r"200 x 3 pixels are too narrow .* need symmetry='so3-shapes'"):
        bot.match(*whole)
    np.save(tmp_path / "signals.npy", np.zeros((3, 1, 200)))
    assert bot.load(tmp_path / "signals.npy").images.shape == (3, 1, 200)


def test_volumes_of_different_sizes_are_matched():
    bodies = [np.zeros((12, 12, 12), dtype=np.uint8) for _ in range(3)]
    bodies[0][2:9, 3:5, 3:5] = 200  # a bar
    bodies[1][3:9, 3:9, 3:9] = 200  # a cube
    bodies[2][2:9, 2:9, 5:7] = 200  # a plate with a peg
    bodies[2][2:4, 2:4, 7:11] = 200
    turned = np.stack([np.pad(np.rot90(body, axes=(0, 2)), 1) for body in bodies])
    source, target = bot.Dataset(turned, kind="volumes"), bot.Dataset(np.stack(bodies), kind="volumes")
    match = bot.match(source, target)
    np.testing.assert_array_equal(match.top_matches(1).indices[:, 0], [0, 1, 2])
    assert match.distance == pytest.approx(0, abs=1e-4)
    array = bot.match(turned, target, symmetry="so3-shapes")
    np.testing.assert_array_equal(array.top_matches(1).indices[:, 0], [0, 1, 2])
    with pytest.warns(bot.DataWarning, match="'source' is read as images with 14 channels; volumes need"):
        bot.match(turned, turned)
