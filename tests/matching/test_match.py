"""From two datasets to a match: what is matched, by which features, within which memory, and what is refused."""

import warnings

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import bispectral_ot as bot
import bispectral_ot.features.fitted as fitted
from bispectral_ot.features import FeatureMap, Pixels


@pytest.fixture(scope="module")
def halves():
    """Two halves of the digits, 30 of each class, the first one turned at random."""
    a, b = bot.split_halves(bot.load("digits"), seed=0, per_class=30)
    return bot.rotate_randomly(a, seed=0), b


@pytest.fixture(scope="module")
def few():
    a, b = bot.split_halves(bot.load("digits"), seed=1, per_class=6)
    return a, b


PRECISE = bot.Sinkhorn(reg=0.05, tol=1e-7)


def difference(first, second):
    """How much mass two matches place otherwise."""
    return np.abs(first.coupling.to_dense() - second.coupling.to_dense()).sum()


def accuracy(match, a, b):
    return bot.class_preservation(match, a.labels, b.labels).accuracy


def test_turned_digits_are_matched_by_bispectra_and_not_by_pixels(halves):
    coupled = accuracy(bot.match(*halves, symmetry="rotation"), *halves)
    by_rings = accuracy(bot.match(*halves, features="ring-bispectrum"), *halves)
    by_pixels = accuracy(bot.match(*halves, symmetry="none"), *halves)
    assert coupled > by_rings + 0.05
    assert by_rings > by_pixels + 0.2


@pytest.mark.parametrize("symmetry", ["none", "rotation", "translation"])
def test_a_set_is_matched_with_itself_element_by_element(few, symmetry):
    a, _ = few
    order = np.random.default_rng(2).permutation(len(a))
    match = bot.match(a, a.select(order), symmetry=symmetry, metric="l2", solver=bot.Sinkhorn(reg=1e-3))
    np.testing.assert_array_equal(order[match.top_matches(1).indices[:, 0]], np.arange(len(a)))
    assert match.distance < 0.02 * match.coupling.cost.maximum


def test_arrays_and_datasets_give_the_same(few):
    a, b = few
    pairs = (a, b), (a.images, b.images), (a, b.images.tolist())
    options = {"marginals": "balanced", "metric_learning": "none"}
    of_datasets, of_arrays, of_lists = (bot.match(*pair, **options) for pair in pairs)
    np.testing.assert_allclose(of_arrays.coupling.to_dense(), of_datasets.coupling.to_dense(), rtol=1e-6)
    np.testing.assert_allclose(of_lists.coupling.to_dense(), of_datasets.coupling.to_dense(), rtol=1e-4)
    assert of_arrays.source_labels is None
    labels, (classes, mass) = of_datasets.labels(), of_datasets.class_weights(to="source")  # as in the paper
    np.testing.assert_array_equal(labels.label, classes[mass.argmax(axis=1)])


def test_a_pair_of_images_and_labels_is_told_to_be_a_dataset(few):
    a, b = few
    for name, sides in (("target", (a, (b.images, b.labels))), ("source", ((a.images, list(a.labels)), b))):
        with pytest.raises(bot.InputError, match=rf"{name} is a pair; .* Dataset\(images, labels\)"):
            bot.match(*sides)
    assert bot.match(tuple(a.images[:2]), b).coupling.shape == (2, len(b))  # two images are two images


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 5), (5, 1)])
def test_one_image_on_a_side(few, n, m):
    a, b = few
    match = bot.match(a.images[:n], b.images[:m], marginals="balanced")
    assert match.converged
    np.testing.assert_allclose(match.coupling.to_dense(), np.full((n, m), 1 / (n * m)), rtol=1e-4)
    assert match.top_matches(9).indices.shape == (n, m)


def test_the_unit_of_the_pixels_does_not_matter(few):
    a, b = (side.images.astype(np.float32) for side in few)
    expected = bot.match(a, b, solver=PRECISE)
    for scale in np.float32([1e-20, 1e20]):
        found = bot.match(a * scale, b * scale, solver=PRECISE)
        assert difference(found, expected) < 5e-3  # whitening enlarges rounding


@pytest.mark.parametrize("features", ["pixels", "ring-bispectrum", "translation-bispectrum", "d4-bispectrum"])
def test_sets_on_different_scales_are_told_where_the_features_see_it(few, features):
    a, b = few
    wide = bot.Dataset(b.images.astype(np.uint16) * 257, name="wide")
    words = r"'digits/source' have a standard deviation of [56][.0-9]*, those of 'wide' 15[.0-9]+, and these"
    with pytest.warns(bot.DataWarning, match=words) as told:
        bot.match(a, wide, features=features)
    assert told[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        # brighter pictures are not of another range
        bot.match(a, b.images * 2.5, features=features, marginals="balanced")
        bot.match(bot.normalize(a), bot.normalize(wide), features=features)


def test_normalization_uses_the_same_two_numbers_for_both_sides(few):
    a, b = (side.images.astype(np.float64) for side in few)
    both = np.concatenate([a, b])
    by_hand = bot.match(*((each - both.mean()) / both.std() for each in (a, b)), normalize=False, solver=PRECISE)
    assert difference(bot.match(a, b, solver=PRECISE), by_hand) < 2e-4


@pytest.mark.parametrize(
    ("transformer", "columns"),
    [
        (make_pipeline(StandardScaler(), PCA(5)), 5),
        (make_pipeline(Pixels(), StandardScaler()), 64),
        (FunctionTransformer(lambda images: images.mean(axis=1)), 8),
        (make_union(Pixels(), Pixels()), 128),
    ],
)
def test_any_transformer_or_pipeline_will_do(few, transformer, columns):
    match = bot.match(*few, features=transformer)
    assert match.converged
    assert match.settings["columns"] == columns
    assert match.feature_map(few[0].images).shape == (len(few[0]), columns)


def test_the_kept_variance_is_scikit_learns(few):
    a, b = few
    match = bot.match(a, b, symmetry="none", pca=6)
    both = np.concatenate([a.images, b.images]).reshape(len(a) + len(b), -1).astype(float)
    assert match.settings["kept_variance"] == pytest.approx(PCA(6).fit(both).explained_variance_ratio_.sum(), rel=1e-4)
    assert match.settings["columns"] == match.settings["pca"] == 6


def test_images_are_seen_once_and_the_plan_is_solved_once_whatever_is_asked(few, monkeypatch, tmp_path):
    seen, solved, features, call, solve = [], [], fitted._features, FeatureMap.__call__, bot.Sinkhorn.solve
    monkeypatch.setattr(fitted, "_features", lambda block, *rest: (seen.append(block), features(block, *rest))[1])
    monkeypatch.setattr(FeatureMap, "__call__", lambda see, images: (seen.append(None), call(see, images))[1])
    monkeypatch.setattr(bot.Sinkhorn, "solve", lambda *sides, **more: (solved.append(1), solve(*sides, **more))[1])
    match = bot.match(*few)
    match.outliers(), match.outliers(side="target"), match.class_proportions()
    match.predictor.save(tmp_path / "model.npz")
    assert sum(block.stop - block.start for block in seen) == 240  # 60 of each set after random motions
    assert len(solved) == 1


def test_progress_tells_each_stage_to_its_end(few):
    last = {}
    bot.match(*few, progress=lambda stage, done, total: last.__setitem__(stage, (done, total)))
    stages = {"rotate", "prepare", "resample", "features", "metric", "cost", "outliers", "classes", "intervals"}
    assert set(last) == stages | {"transport", "summary"}
    assert all(done == total for done, total in last.values())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"symmetry": "rotations"}, "did you mean 'rotation'"),
        ({"features": 3}, "transformer"),
        ({"pca": 65, "features": "pixels"}, "pca"),
        ({"solver": "sinkhorm"}, "unknown solver 'sinkhorm'; did you mean 'sinkhorn'"),
        ({"source_weights": np.ones(60)}, "source_weights must sum to one"),
        ({"target_weights": np.ones(3) / 3}, "target_weights has shape"),
    ],
)
def test_bad_options_are_refused_before_the_work(few, options, words):
    calls = []
    with pytest.raises(bot.InputError, match=words):
        bot.match(*few, **options, progress=lambda *call: calls.append(call))
    assert calls in ([], [("prepare", 0, 1)])
