"""New images for a solved match, also after it was saved."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import bispectral_ot as bot
from bispectral_ot import runtime
from bispectral_ot.datasets import rotate
from bispectral_ot.errors import InputError
from bispectral_ot.matching import Predictor

OPTIONS = [
    {},
    {"marginals": "balanced", "solver": bot.Sinkhorn(reg=0.05)},
    {"features": "best-rotation"},
    {"pca": 12, "normalize": False},
    {"symmetry": "d4"},
    {"intensity": "keep", "metric_learning": "none"},
]


@pytest.fixture(scope="module")
def sides():
    source, target = bot.split_halves(bot.load("digits"), per_class=20)
    return rotate(source, np.random.default_rng(2).uniform(0, 360, len(source))), target


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_images_that_took_part_get_the_same_answer(sides, options, tmp_path):
    """Also from a saved model, and on several threads of BLAS."""
    source, target = sides
    match, some = bot.match(source, target, **options), np.arange(3, 200, 9)
    labels, top, distances = match.labels().loc[some], match.top_matches(5), match.top_distances(5)
    chosen = source.select(some)
    match.predictor.save(tmp_path / "model.npz")
    with threadpool_limits(4, user_api="blas"):
        kept = Predictor.load(tmp_path / "model.npz")
        for found in (match.predictor.match(chosen), kept.match(chosen)):
            np.testing.assert_array_equal(found.labels().label, labels.label)
            np.testing.assert_allclose(found.labels().probability, labels.probability, atol=5e-5)
            np.testing.assert_allclose(found.labels().outlier_score, labels.outlier_score, atol=0.006)  # one rank
            np.testing.assert_allclose(found.top_matches(5).weights, top.weights[some], atol=5e-5)
            np.testing.assert_array_equal(found.top_matches(1).indices, top.indices[some, :1])
            np.testing.assert_allclose(found.top_distances(5), distances[some], rtol=1e-4, atol=1e-5)


def test_poses_of_images_that_took_part_are_those_of_the_match(sides, tmp_path):
    source, target = sides
    match = bot.match(source, target)
    poses, some = match.poses(), np.arange(3, 200, 9)
    found = match.predict(source.select(some), poses=True)
    assert repr(found) == "Prediction(labels and probabilities, best targets, poses of 22 images)"
    assert found.to_frame().columns.tolist() == [*match.labels().columns, "target", "weight"]
    np.testing.assert_allclose(found.poses.angles, poses.angles[some], atol=1e-3)
    np.testing.assert_allclose(found.poses.uncertainty, poses.uncertainty[some], rtol=1e-3)


def test_damaged_models_are_refused(sides, tmp_path):
    path = tmp_path / "model.npz"
    bot.match(*sides, features="pixels").predictor.save(path)
    assert Predictor.load(path).reg > 0
    with np.load(path) as file:
        saved = dict(file)
    for name, value in {"array0": saved["array0"] * 1.01, "more": np.zeros((2**20, 2**6), np.uint8)}.items():
        np.savez_compressed(path, **(saved | {name: value}))
        with runtime.running(memory="50MB"), pytest.raises(InputError, match="damaged, or not the model of a match"):
            Predictor.load(path)


def test_shapes_are_predicted(tmp_path):
    random = np.random.default_rng(0)
    clouds = [random.normal(size=(random.integers(60, 90), 3)) * [1, 1, 0.2 + c] for c in (0, 1, 2) for _ in range(6)]
    shapes = bot.Dataset(clouds, np.repeat(["flat", "round", "long"], 6), kind="clouds")
    match = bot.match(shapes.select(np.arange(0, 18, 2)), shapes.select(np.arange(1, 18, 2)), marginals="relaxed")
    match.predictor.save(tmp_path / "model.npz")
    found = Predictor.load(tmp_path / "model.npz").match(match.source)
    np.testing.assert_array_equal(found.labels().label, match.labels().label)


def test_predictions_that_are_impossible_are_refused(sides, tmp_path):
    match = bot.match(*sides, features=StandardScaler())
    with pytest.raises(InputError, match=r"9 x 9.*8 x 8"):
        match.predict(np.zeros((2, 9, 9)))
    with pytest.raises(InputError, match=r"have 3 channel.* 1; compare them in grey"):
        match.predict(np.random.default_rng(0).random((2, 8, 8, 3)))
    in_colour = np.repeat(sides[0].images[:9, ..., None], 3, axis=3)  # grey, but saved with three channels
    assert match.predict(in_colour).labels.tolist() == match.labels().label[:9].tolist()
    with pytest.raises(InputError, match="other packages cannot be saved"):
        match.predictor.save(tmp_path / "model.npz")
    (tmp_path / "model.npz").write_bytes(b"no model")
    with pytest.raises(InputError, match="damaged"):
        Predictor.load(tmp_path / "model.npz")
    with pytest.raises(InputError, match="potentials"):
        bot.match(*sides, solver="exact").predict(sides[0])
