"""Datasets of vectors through match, compare and predict."""

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.matching.predictor import Predictor


def clusters(n, seed, width=12):
    random = np.random.default_rng(seed)
    labels = random.integers(4, size=n)
    return np.random.default_rng(0).normal(size=(4, width))[labels] * 3 + random.normal(size=(n, width)), labels


@pytest.fixture(scope="module")
def sides():
    return tuple(bot.Dataset.from_vectors(*clusters(60, seed), name=f"set {seed}") for seed in (1, 2))


def test_vectors_are_matched_compared_and_predicted(sides, tmp_path):
    match = bot.match(*sides)
    assert match.settings | {"features": "vectors", "symmetry": "none", "metric": "sqeuclidean"} == match.settings
    assert (match.labels().label == match.source_labels).mean() > 0.95
    squared = ((sides[0].vectors[:, None].astype(float) - sides[1].vectors) ** 2).sum(axis=2)
    plain = bot.match(*(bot.Dataset.from_vectors(side.vectors) for side in sides))  # labels would teach a metric
    np.testing.assert_allclose(plain.coupling.cost.block(0, 60), squared, rtol=1e-3)
    match.predictor.save(tmp_path / "model.npz")
    predicted = Predictor.load(tmp_path / "model.npz").match(sides[0])
    np.testing.assert_array_equal(predicted.labels().label, match.labels().label)
    assert bot.compare({"a": sides[0], "b": sides[1]}).settings["features"] == "vectors"
    with pytest.raises(bot.InputError, match=r"have 3 columns but those of .* 12"):
        match.predictor.match(bot.Dataset.from_vectors(np.ones((2, 3))))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bot.Dataset.from_vectors([[1.0, np.nan], [0, 1]]), "1 vectors have NaN .*first 0"),
        (lambda: bot.Dataset.from_vectors([[1e300, 0]]), "beyond float32"),
        (lambda: bot.Dataset.from_vectors([[1, 2], [3]]), "different lengths"),
        (lambda: bot.Dataset.from_vectors(np.ones(3)), "shape \\(n, columns\\), got \\(3,\\)"),
        (lambda: bot.Dataset.from_vectors(np.eye(2), images=np.ones((3, 4, 4))), "2 vectors for 3 images"),
        (lambda: bot.Dataset(np.ones((2, 4, 4)), vectors=np.eye(2)), "belong to the kind"),
        (lambda: bot.match(np.ones((4, 3)), np.ones((4, 3))), "Dataset.from_vectors"),
        (lambda: bot.match(np.ones((2, 4, 4)), np.ones((2, 4, 4)), features="vectors"), "images need other features"),
        (lambda: bot.match(*map(bot.Dataset.from_vectors, (np.eye(3), np.eye(4)))), "3 columns but .* 'vectors' 4"),
        (lambda: bot.match(*[bot.Dataset.from_vectors(1e-22 * np.eye(3))] * 2), "differ by 1.0e-22 at most; scale"),
        (lambda: bot.match(*[bot.Dataset.from_vectors(np.eye(3))] * 2, symmetry="rotation"), "vectors have no pixels"),
        (lambda: bot.match(bot.Dataset.from_vectors(np.eye(4)), np.ones((4, 4, 4))), "has vectors but"),
    ],
)
def test_bad_vectors_are_refused(make, message):
    with pytest.raises(bot.InputError, match=message):
        make()


def test_constant_columns_are_told():
    rows = np.random.default_rng(0).random((2, 9, 4))
    rows[:, :, 1:3] = 7
    with pytest.warns(bot.DataWarning, match="2 of the 4 columns of the vectors are constant"):
        bot.match(*(bot.Dataset.from_vectors(side) for side in rows))
