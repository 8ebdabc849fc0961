"""Matches of sets that do not have the same things in the same shares."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.matching.class_model import fit_calibration
from bispectral_ot.matching.class_proportions import likeliest_proportions


def kept(dataset, shares, per_class):
    """Of each class its share of ``per_class`` images."""
    index = [np.flatnonzero(dataset.labels == c)[: round(share * per_class)] for c, share in enumerate(shares)]
    return dataset.select(np.concatenate(index))


@pytest.fixture(scope="module")
def halves():
    source, target = bot.split_halves(bot.load("digits"), per_class=60)
    return bot.rotate_randomly(source), target


@pytest.fixture(scope="module")
def skewed(halves):
    """Source and target skewed the opposite way."""
    shares = 0.75 ** np.arange(10)
    return kept(halves[0], shares[::-1], 60), kept(halves[1], shares, 60)


def accuracy(match, dataset):
    return float((match.label_details().labels == np.asarray(dataset.classes)[dataset.labels]).mean())


# Ways


def test_the_default_is_what_suits_what_is_known(halves):
    source, target = (side.select(np.arange(0, len(side), 6)) for side in halves)
    assert bot.match(source, target).settings["marginals"] == "estimated"
    assert bot.match(source, target.images).settings["marginals"] == "relaxed"
    uniform = np.full(len(target), 1 / len(target))
    assert bot.match(source, target, target_weights=uniform).settings["marginals"] == "balanced"
    assert bot.match(source, target, solver="exact").settings["marginals"] == "balanced"
    assert bot.match(source, target, solver=bot.Sinkhorn(unbalanced=0.1)).settings["marginals"] == "balanced"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"marginals": "loose"}, "balanced, relaxed, estimated"),
        ({"marginals": "relaxed", "solver": "exact"}, "Sinkhorn"),
        ({"marginals": "estimated", "solver": bot.Sinkhorn(unbalanced=0.5)}, "Sinkhorn"),
        ({"marginals": "estimated", "source_weights": np.full(100, 0.01)}, "mutually exclusive"),
    ],
)
def test_ways_that_cannot_be_gone_are_refused(halves, options, message):
    source, target = (side.select(np.arange(100)) for side in halves)
    with pytest.raises(InputError, match=message):
        bot.match(source, target, **options)


def test_estimates_need_labels(halves):
    with pytest.raises(InputError, match="needs labels on the target"):
        bot.match(halves[0], halves[1].images, marginals="estimated")


def test_different_shares_are_met_by_estimates_and_a_balanced_match_warns(skewed):
    with pytest.warns(DataWarning, match="different class proportions"):
        balanced = bot.match(*skewed, marginals="balanced")
    estimated, relaxed = bot.match(*skewed), bot.match(*skewed, marginals="relaxed")
    assert balanced.settings["marginals"] == "balanced"
    assert accuracy(estimated, skewed[0]) > accuracy(relaxed, skewed[0]) > accuracy(balanced, skewed[0]) + 0.2
    assert all(match.converged for match in (balanced, estimated, relaxed))


def test_equal_shares_lose_nothing(halves):
    estimated, balanced = bot.match(*halves), bot.match(*halves, marginals="balanced")
    assert accuracy(estimated, halves[0]) > accuracy(balanced, halves[0]) - 0.005
    assert estimated.class_proportions().source == pytest.approx(np.full(10, 0.1), abs=0.01)


def test_classes_of_one_image_do_no_harm_and_where_all_are_that_is_told(halves):
    source, target = halves
    one = target.select(np.flatnonzero((target.labels != 3) | (np.arange(len(target)) % 60 == 0)))
    assert (one.labels == 3).sum() == 1
    assert bot.match(source, one).class_proportions().source.sum() == pytest.approx(1)
    first = target.select(np.unique(target.labels, return_index=True)[1])
    with pytest.warns(DataWarning, match="fewer than two classes of two images"):
        match = bot.match(source, first)
    assert match.settings["marginals"] == "relaxed"
    assert not match.label_details().calibrated


def test_one_class_and_one_image_are_enough(halves):
    source, target = halves
    one_class = target.select(np.flatnonzero(target.labels == 4))
    assert set(bot.match(source, one_class).label_details().labels) == {"4"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        assert bot.match(source, target.select([5])).converged
        assert bot.match(source.select([5]), target.select([7, 100])).converged


# Shares of classes


def test_shares_are_found_with_their_intervals(skewed):
    source, _ = skewed
    shares = bot.match(*skewed).class_proportions()
    truth = np.bincount(source.labels) / len(source)
    assert np.abs(shares.source - truth).sum() / 2 < 0.15
    assert (shares.low <= shares.source).all()
    assert (shares.source <= shares.high).all()
    assert ((shares.low - 0.02 <= truth) & (truth <= shares.high + 0.02)).mean() >= 0.8
    assert shares.received == pytest.approx(shares.source, abs=0.02)
    assert shares.target.sum() == pytest.approx(1)


def test_proportions_are_estimated_whatever_the_marginals(skewed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        balanced = bot.match(*skewed, marginals="balanced")
    np.testing.assert_allclose(
        balanced.class_proportions().source, bot.match(*skewed).class_proportions().source, atol=1e-3
    )
    with pytest.raises(InputError, match="no labels"):
        bot.match(skewed[0], skewed[1].images).class_proportions()


def test_mixtures_are_taken_apart_exactly_where_classes_do_not_overlap():
    likelihoods = np.log(np.eye(3)[[0, 0, 0, 1, 2, 2]] + 1e-12)
    np.testing.assert_allclose(likeliest_proportions(likelihoods), [1 / 2, 1 / 6, 1 / 3], atol=1e-6)


def test_the_likeliest_proportions_of_overlapping_classes_are_those_of_a_grid_search():
    generator = np.random.default_rng(0)
    x = np.concatenate([generator.normal(0, 1, 70), generator.normal(2, 1, 30)])
    likelihoods = -0.5 * (x[:, None] - [0.0, 2.0]) ** 2
    grid = np.linspace(0.001, 0.999, 999)
    values = np.log(np.exp(likelihoods) @ np.stack([grid, 1 - grid])).sum(axis=0)
    assert likeliest_proportions(likelihoods)[0] == pytest.approx(grid[values.argmax()], abs=2e-3)


def test_calibration_finds_the_temperature_and_the_biases():
    generator = np.random.default_rng(1)
    labels = generator.integers(3, size=6000)
    log_odds = generator.normal(0, 2, (6000, 3))
    p = np.exp(log_odds) / np.exp(log_odds).sum(axis=1, keepdims=True)
    labels = (p.cumsum(axis=1) > generator.uniform(size=(6000, 1))).argmax(axis=1)
    counts = np.bincount(labels).astype(float)
    shift = np.array([0.5, -0.5, 0.0])
    # scores twice as sharp as they should be, and biased
    found, _ = fit_calibration(2 * (log_odds - np.log(counts) + shift)[..., None], labels, counts)
    assert found.weights[0] == pytest.approx(0.5, rel=0.05)
    np.testing.assert_allclose(found.biases - found.biases.mean(), -shift, atol=0.15)


# Without counterpart


def test_what_has_no_counterpart_is_found():
    source, target = bot.split_halves(bot.load("digits"), per_class=60)
    target = target.select(np.flatnonzero(target.labels < 5))
    found = bot.match(source, target).outliers(0.05)
    is_unknown = source.labels >= 5
    assert (found.scores[is_unknown] < 0.05).mean() > 0.5
    assert (found.scores[~is_unknown] < 0.05).mean() < 0.15
    np.testing.assert_array_equal(np.sort(found.indices), np.flatnonzero(found.scores < 0.05))


def test_targets_that_no_source_wants_are_found():
    source, target = bot.split_halves(bot.load("digits"), per_class=60)
    match = bot.match(source.select(np.flatnonzero(source.labels < 5)), target)
    found = match.outliers(side="target")
    assert (target.labels[found.indices] >= 5).mean() > 0.8


def test_a_set_of_another_kind_is_called_one(halves):
    strangers = np.random.default_rng(0).integers(0, 17, (80, 8, 8)).astype(np.uint8)
    with pytest.warns(DataWarning, match="no counterpart"):
        match = bot.match(strangers, halves[1])
    assert match.settings["outlier_fraction"] > 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bot.match(*halves).settings["outlier_fraction"] < 0.4  # turned images of 8 x 8 pixels are blurred


@pytest.mark.parametrize("share", [0, 1, -0.1, np.nan, "some"])
def test_shares_that_are_none_are_refused(halves, share):
    match = bot.match(*(side.select(np.arange(0, 600, 20)) for side in halves))
    for ask in (match.outliers, match.to_check):
        with pytest.raises(InputError, match="must be a share"):
            ask(share)


# Doubtful labels, and new images


def test_labels_to_check_are_wrong_more_often(halves):
    match = bot.match(*halves)
    table, check = match.labels(), match.to_check(0.99)
    wrong = table.label.to_numpy() != np.asarray(halves[0].classes)[halves[0].labels]
    assert wrong[check].mean() > 3 * np.delete(wrong, check).mean()
    assert (np.diff(table.probability[check]) >= 0).all()
    assert (table.runner_up != table.label).all()
    assert (table.runner_up_probability <= table.probability).all()
    assert table.outlier_score.between(0, 1).all()
    costs = match.coupling.cost.block(0, len(halves[0]))
    np.testing.assert_allclose(match.label_details().nearest_costs, costs.min(axis=1), rtol=1e-6)


@pytest.mark.parametrize(
    "options", [{}, {"marginals": "relaxed"}, {"marginals": "balanced"}, {"features": "best-rotation"}]
)
def test_images_that_took_part_are_predicted_as_they_were_matched(halves, options):
    source, target = (side.select(np.arange(0, 600, 4)) for side in halves)
    match = bot.match(source, target, **options)
    found, labels = match.predict(source), match.label_details()
    np.testing.assert_array_equal(found.labels, labels.labels)
    np.testing.assert_allclose(found.probabilities, labels.probabilities, atol=2e-3)
    np.testing.assert_array_equal(found.matches.indices[:, 0], match.top_matches(1).indices[:, 0])


def test_new_images_are_predicted(halves):
    source, target = halves
    match = bot.match(source.select(np.arange(0, 600, 2)), target)
    rest = source.select(np.arange(1, 600, 2))
    assert (match.predict(rest).labels == np.asarray(rest.classes)[rest.labels]).mean() > 0.8
    assert match.predict(rest.images[:1], k=3).matches.indices.shape == (1, 3)
    with pytest.raises(InputError, match="8 x 8"):
        match.predict(np.zeros((2, 9, 9)))
    with pytest.raises(InputError, match="potentials"):
        bot.match(source, target, solver="exact").predict(rest)


@pytest.mark.parametrize("options", [{"features": "ring-bispectrum"}, {"features": "pixels"}, {"pca": 20}], ids=str)
def test_shares_are_estimated_by_any_features(options):
    source, target = bot.split_halves(bot.load("digits"), per_class=40)
    source = source.select(np.flatnonzero(source.labels < 3))
    shares = bot.match(source, target, **options).class_proportions()
    assert shares.source[:3].sum() > 0.75


def test_intervals_are_not_certain_where_the_sets_cannot_be_told_apart(halves):
    """The estimate is then the target's share, but that is not known."""
    shares = bot.match(*halves).class_proportions()
    assert (shares.high - shares.low > 0.01).all()
    assert ((shares.low <= 0.1) & (shares.high >= 0.1)).mean() >= 0.8
    half = bot.match(halves[0].select(halves[0].labels < 5), halves[1]).class_proportions()
    assert (half.low[5:] == 0).mean() >= 0.6
