"""New images for a solved match, also after it was saved."""

from __future__ import annotations

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.datasets import rotate
from bispectral_ot.errors import InputError
from bispectral_ot.matching import Predictor

OPTIONS = [
    {},
    {"marginals": "relaxed"},
    {"marginals": "balanced", "solver": bot.Sinkhorn(reg=0.05)},
    {"features": "aligned"},
    {"pca": 12, "normalize": False},
    {"symmetry": "d4"},
    {"intensity": "keep"},
]


@pytest.fixture(scope="module")
def sides():
    source, target = bot.split_halves(bot.load("digits"), per_class=20)
    return rotate(source, np.random.default_rng(2).uniform(0, 360, len(source))), target


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_images_that_took_part_get_the_same_answer(sides, options, tmp_path):
    source, target = sides
    match = bot.match(source, target, **options)
    some = np.arange(3, 200, 9)
    labels, top, poses = match.transfer_labels(), match.top_matches(5), match.poses()
    match.predictor.save(tmp_path / "model.npz")
    kept = Predictor.load(tmp_path / "model.npz")
    found = match.predict(source.select(some), poses=True)
    assert repr(found) == "Prediction(labels and shares, best targets, poses of 22 images)"
    np.testing.assert_array_equal(found.labels, labels.labels[some])
    np.testing.assert_allclose(found.shares, labels.shares[some], atol=1e-4)
    np.testing.assert_allclose(found.poses.angles, poses.angles[some], atol=1e-3)
    np.testing.assert_allclose(found.poses.scores, poses.scores[some], atol=1e-3)
    np.testing.assert_allclose(found.poses.uncertainty, poses.uncertainty[some], rtol=1e-3)
    again = kept.match(source.select(some))
    for answer in (found.matches, again.top_matches(5)):
        np.testing.assert_allclose(answer.shares, top.shares[some], atol=1e-4)
        clear = np.diff(top.shares[some, :2])[:, 0] < -1e-3
        np.testing.assert_array_equal(answer.indices[clear, 0], top.indices[some][clear, 0])
    np.testing.assert_allclose(again.top_distances(5), match.top_distances(5)[some], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(kept.poses(source.select(some), again.top_matches(10)).angles, found.poses.angles)


def test_shapes_are_predicted_too(tmp_path):
    random = np.random.default_rng(0)
    clouds = [random.normal(size=(random.integers(60, 90), 3)) * [1, 1, 0.2 + c] for c in (0, 1, 2) for _ in range(6)]
    shapes = bot.Dataset(clouds, np.repeat(["flat", "round", "long"], 6), kind="clouds")
    match = bot.match(shapes.select(np.arange(0, 18, 2)), shapes.select(np.arange(1, 18, 2)), marginals="relaxed")
    match.predictor.save(tmp_path / "model.npz")
    found = Predictor.load(tmp_path / "model.npz").match(match.source)
    np.testing.assert_array_equal(found.transfer_labels().labels, match.transfer_labels().labels)


def test_what_cannot_be_predicted_or_kept_is_refused(sides, tmp_path):
    match = bot.match(*sides, features=bot.CoupledBispectrum(n_angles=24))
    with pytest.raises(InputError, match=r"9 x 9.*8 x 8"):
        match.predict(np.zeros((2, 9, 9)))
    with pytest.raises(InputError, match="8 x 8 x 3"):
        match.predict(np.zeros((2, 8, 8, 3)))
    with pytest.raises(InputError, match="known by name"):
        match.predictor.save(tmp_path / "model.npz")
    (tmp_path / "model.npz").write_bytes(b"no model")
    with pytest.raises(InputError, match="damaged"):
        Predictor.load(tmp_path / "model.npz")
    with pytest.raises(InputError, match="potentials"):
        bot.match(*sides, solver="exact").predict(sides[0])
