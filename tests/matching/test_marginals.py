"""Matches of sets that do not have the same classes in the same proportions."""

from types import SimpleNamespace

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.matching.class_model import fit_calibration
from bispectral_ot.matching.source_classes import estimate_proportions, likeliest_proportions


def kept(dataset, proportions, per_class):
    """Of each class a fraction of ``per_class`` images."""
    index = [np.flatnonzero(dataset.labels == c)[: round(each * per_class)] for c, each in enumerate(proportions)]
    return dataset.select(np.concatenate(index))


@pytest.fixture(scope="module")
def skewed(turned_halves):
    """Source and target skewed the opposite way, and their match."""
    skew = 0.75 ** np.arange(10)
    source, target = kept(turned_halves[0], skew[::-1], 60), kept(turned_halves[1], skew, 60)
    return source, target, bot.match(source, target)


def accuracy(match):
    return float((match.labels().label == match.source_labels).mean())


def test_the_default_marginals_depend_on_labels_weights_and_solver(turned_halves):
    source, target = (side.select(np.arange(0, len(side), 6)) for side in turned_halves)
    uniform = np.full(len(target), 1 / len(target))
    for expected, side, options in (
        ("estimated", target, {}),
        ("relaxed", target.images, {}),
        ("balanced", target, {"target_weights": uniform}),
        ("balanced", target, {"solver": "exact"}),
        ("balanced", target, {"solver": bot.Sinkhorn(unbalanced=0.1)}),
    ):
        assert bot.match(source, side, **options).settings["marginals"] == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"marginals": "relaxed", "solver": "exact"}, "Sinkhorn"),
        ({"marginals": "estimated", "solver": bot.Sinkhorn(unbalanced=0.5)}, "Sinkhorn"),
        ({"marginals": "estimated", "source_weights": np.full(100, 0.01)}, "mutually exclusive"),
    ],
)
def test_marginals_that_are_impossible_are_refused(turned_halves, options, message):
    source, target = (side.select(np.arange(100)) for side in turned_halves)
    with pytest.raises(InputError, match=message):
        bot.match(source, target, **options)
    with pytest.raises(InputError, match="needs labels on the target"):
        bot.match(source, target.images, marginals="estimated")


def test_different_proportions_are_estimated_and_a_balanced_match_warns(skewed):
    source, target, estimated = skewed
    with pytest.warns(DataWarning, match="different class proportions"):
        balanced = bot.match(source, target, marginals="balanced")
    relaxed = bot.match(source, target, marginals="relaxed")
    assert accuracy(estimated) > accuracy(relaxed) > accuracy(balanced) + 0.2
    assert all(match.converged for match in (balanced, estimated, relaxed))
    np.testing.assert_allclose(balanced.class_proportions().source, estimated.class_proportions().source, atol=1e-3)
    with pytest.raises(InputError, match="need labels"):
        bot.match(source, target.images).class_proportions()


def test_classes_of_one_image_do_no_harm_and_a_warning_tells_where_all_are(turned_halves):
    source, target = turned_halves
    one = target.select(np.flatnonzero((target.labels != 3) | (np.arange(len(target)) % 60 == 0)))
    assert (one.labels == 3).sum() == 1
    assert bot.match(source, one).class_proportions().source.sum() == pytest.approx(1)
    first = target.select(np.unique(target.labels, return_index=True)[1])
    with pytest.warns(DataWarning, match="fewer than two classes of two images"):
        match = bot.match(source, first)
    assert match.settings["marginals"] == "relaxed"
    assert match.classes is None
    assert set(bot.match(source, target.select(target.labels == 4)).labels().label) == {"4"}


def test_labels_of_few_targets_are_no_worse_than_by_likelihood_alone():
    """Estimated proportions of classes with one to five targets mean little, and must not decide the labels."""
    behind, promised = [], []
    for seed in range(4):
        source, target = bot.split_halves(bot.load("digits"), per_class=20, seed=seed)
        match = bot.match(bot.rotate_randomly(source, seed=seed), kept(target, 0.7 ** np.arange(10), 20))
        flat = match.classes.probabilities / np.exp(match.classes.offsets)
        by_likelihood = match.classes.model.classes[flat.argmax(axis=1)] == match.source_labels
        behind.append(accuracy(match) - by_likelihood.mean())
        promised.append(match.expected_accuracy().value - accuracy(match))
    assert np.mean(behind) > -0.02
    assert abs(np.mean(promised)) < 0.1


def test_proportions_are_found_with_their_intervals(skewed):
    source, _, match = skewed
    found, truth = match.class_proportions(), np.bincount(source.labels) / len(source)
    assert np.abs(found.source - truth).sum() / 2 < 0.15
    assert ((found.low <= found.source) & (found.source <= found.high)).all()
    assert ((found.low - 0.02 <= truth) & (truth <= found.high + 0.02)).mean() >= 0.8
    assert found.received == pytest.approx(found.source, abs=0.02)
    table = found.to_frame()
    assert list(table) == ["source", "low", "high", "target", "received"]
    assert table.target.sum() == pytest.approx(1)
    assert table.index.tolist() == list(map(str, range(10)))


def test_equal_proportions_lose_nothing_and_are_not_certain(turned_halves, turned_match):
    assert accuracy(turned_match) > accuracy(bot.match(*turned_halves, marginals="balanced")) - 0.005
    found, of_chance = turned_match.class_proportions(), 2 * 1.645 * np.sqrt(0.09 / len(turned_halves[0]))
    assert found.source == pytest.approx(np.full(10, 0.1), abs=0.01)
    assert (found.high - found.low > 0.01).all()
    assert np.median(found.high - found.low) < 1.5 * of_chance  # of a binomial proportion of known labels
    assert ((found.low <= 0.1) & (found.high >= 0.1)).mean() >= 0.8
    half = bot.match(turned_halves[0].select(turned_halves[0].labels < 5), turned_halves[1]).class_proportions()
    assert (half.low[5:] == 0).mean() >= 0.6


def test_evidence_of_other_proportions_counts_as_far_as_labels_are_certain():
    """Of certain labels too much was discounted; those that a blur made uncertain had moved to other classes."""
    labels = np.arange(700) % 70
    model = SimpleNamespace(likelihoods=8.0 * np.eye(70)[labels], labels=labels, codes=labels, counts=np.full(70, 10.0))
    few = np.repeat(np.arange(70), np.geomspace(1, 10, 70).astype(int))
    assert estimate_proportions(model, 8.0 * np.eye(70)[few]).trust > 0.5
    moved = np.where(labels < 20, 20, labels)
    assert estimate_proportions(model, 8.0 * np.eye(70)[moved]).trust == pytest.approx(1)
    assert estimate_proportions(model, 4.0 * np.eye(70)[moved]).trust == 0


@pytest.mark.parametrize("others", [0, 200])
def test_the_likeliest_proportions_of_overlapping_classes_are_those_of_a_grid_search(others):
    """Also among many classes that no element is near, where likelihoods are sparse."""
    generator = np.random.default_rng(0)
    x = np.concatenate([generator.normal(0, 1, 70), generator.normal(2, 1, 30)])
    likelihoods, grid = -0.5 * (x[:, None] - [0.0, 2.0]) ** 2, np.linspace(0.001, 0.999, 999)
    values = np.log(np.exp(likelihoods) @ np.stack([grid, 1 - grid])).sum(axis=0)
    likelihoods = np.hstack([likelihoods, np.full((100, others), -50.0)])
    assert likeliest_proportions(likelihoods)[0] == pytest.approx(grid[values.argmax()], abs=2e-3)


def test_calibration_finds_the_temperature_and_the_biases():
    generator = np.random.default_rng(1)
    log_odds = generator.normal(0, 2, (6000, 3))
    p = np.exp(log_odds) / np.exp(log_odds).sum(axis=1, keepdims=True)
    labels = (p.cumsum(axis=1) > generator.uniform(size=(6000, 1))).argmax(axis=1)
    counts, shift = np.bincount(labels).astype(float), np.array([0.5, -0.5, 0.0])
    # scores twice as sharp as they should be, and biased
    found, _ = fit_calibration(2 * (log_odds - np.log(counts) + shift)[..., None], labels, counts)
    assert found[0] == pytest.approx(0.5, rel=0.05)
    np.testing.assert_allclose(found[2:] - found[2:].mean(), -shift, atol=0.15)
    labels = np.arange(6) % 3  # a few that are all right: one more counts as right, and one as wrong
    found, _ = fit_calibration(5.0 * np.eye(3)[labels][..., None], labels, np.full(3, 2.0))
    assert 5 * found[0] == pytest.approx(np.log((7 / 8) / (1 / 16)), rel=1e-2)


def test_outliers_of_both_sides_are_found():
    source, target = bot.split_halves(bot.load("digits"), per_class=60)
    match = bot.match(source, target.select(np.flatnonzero(target.labels < 5)))
    found, unknown = match.outliers(0.05), source.labels >= 5
    assert (found.scores[unknown] < 0.05).mean() > 0.5
    assert (found.scores[~unknown] < 0.05).mean() < 0.15
    np.testing.assert_array_equal(np.sort(found.indices), np.flatnonzero(found.scores < 0.05))
    assert (found.to_frame().outlier_score < 0.05).sum() == found.to_frame().outlier.sum() == len(found.indices)
    match = bot.match(source.select(np.flatnonzero(source.labels < 2)), target)
    # 0.26 with potentials of a plan, for which all are frequent
    assert (match.outliers(0.05).scores < 0.05).mean() < 0.1
    assert (target.labels[match.outliers(side="target").indices] >= 2).mean() > 0.8
    for level in (0, 1, -0.1, np.nan, "some"):
        for method in (match.outliers, match.to_check):
            with pytest.raises(InputError, match="above 0 and below 1"):
                method(level)


def test_a_set_of_another_kind_is_warned_of(turned_halves, turned_match):
    strangers = np.random.default_rng(0).integers(0, 17, (80, 8, 8)).astype(np.uint8)
    with pytest.warns(DataWarning, match="no counterpart"):
        match = bot.match(strangers, turned_halves[1])
    assert match.settings["outlier_fraction"] > 0.5
    for side in ("source", "target"):  # rotated images of 8 x 8 pixels are blurred
        assert (turned_match.outliers(0.05, side=side).scores < 0.05).mean() < 0.15
