"""What a match tells: pairs, masses, labels and how well classes are kept, by hand-made plans."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import bispectral_ot as bot
from bispectral_ot.costs import Cost
from bispectral_ot.features import FeatureMap, Pixels
from bispectral_ot.matching import Match
from bispectral_ot.transport.coupling import SparseCoupling

PLAN = np.array(
    [  # targets: 0    1    2    3
        [0.2, 0.0, 0.0, 0.0],
        [0.0, 0.1, 0.1, 0.0],
        [0.05, 0.05, 0.0, 0.1],
        [0.0, 0.05, 0.05, 0.1],
        [0.0, 0.1, 0.1, 0.0],
    ]
)


def match_of(plan, source_labels=None, target_labels=None):
    plan, labels = np.asarray(plan, float), (source_labels, target_labels)
    source, target = (bot.Dataset(np.zeros((n, 2, 2)), each) for n, each in zip(plan.shape, labels, strict=True))
    sums = {"source_weights": plan.sum(axis=1), "target_weights": plan.sum(axis=0)}
    coupling = SparseCoupling(cost=Cost.from_matrix(np.ones(plan.shape)), **sums, tol=1e-9, plan=csr_array(plan))
    rows = tuple(np.zeros((n, 4), np.float32) for n in plan.shape)
    settings = {"features": "pixels", "symmetry": "none", "marginals": "balanced"}
    return Match(coupling, source, target, settings, FeatureMap(Pixels().fit(source.images)), rows)


def test_the_best_targets_come_first_with_their_weight():
    top = match_of(PLAN).top_matches(2)
    assert top.indices.tolist() == [[0, -1], [1, 2], [3, 0], [3, 1], [1, 2]]
    np.testing.assert_allclose(top.weights, [[1, 0], [0.5, 0.5], [0.5, 0.25], [0.5, 0.25], [0.5, 0.5]])
    assert match_of(PLAN).top_matches(50).weights.shape == (5, 4)
    np.testing.assert_allclose(match_of(PLAN).top_matches(4).weights.sum(axis=1), 1)
    for k in (0, 2.5):
        with pytest.raises(bot.InputError, match="at least 1"):
            match_of(PLAN).top_matches(k)
    # an element without mass has weights of zero
    match = match_of([[0.5, 0.5], [0.0, 0.0]], target_labels=["x", "y"])
    np.testing.assert_array_equal(match.top_matches(2).weights[1], [0, 0])
    np.testing.assert_array_equal(match.top_matches(2).indices, [[0, 1], [-1, -1]])
    np.testing.assert_array_equal(match.class_weights()[1][1], [0, 0])


def test_labels_are_those_of_the_plan_where_there_is_no_class_model():
    match = match_of(PLAN, source_labels=["cat", "dog", "cat", "owl", "dog"], target_labels=[3, 1, 1, 2])
    table = match.labels()
    assert table.label.tolist() == ["3", "1", "2", "1", "1"]  # a tie (source 3: half 1, half 2) goes to the first label
    np.testing.assert_allclose(table.probability, [1, 1, 0.5, 0.5, 1])
    for ask in (match.expected_accuracy, match.shift, match.to_check, match.class_proportions):
        with pytest.raises(bot.InputError, match="no class probabilities"):
            ask()
    assert match.headline() == {}
    with pytest.raises(bot.InputError, match="no labels"):
        match_of(PLAN).labels()


def test_masses_by_class_are_weights():
    classes, weights = match_of(PLAN, target_labels=["b", "a", "b", "c"]).class_weights()
    assert classes.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(weights, [[0, 1, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5], [0.25, 0.25, 0.5], [0.5, 0.5, 0]])
    classes, weights = match_of(PLAN).class_weights([1, 1, 1, 0, 0], to="target")
    assert classes.tolist() == [0, 1]
    np.testing.assert_allclose(weights, [[0, 1], [0.5, 0.5], [0.6, 0.4], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (((), {}), "neither set has labels"),
        (((), {"to": "source"}), "target set has no labels"),
        ((([1, 2, 3, 4],), {"to": "target"}), "4 entries but there are 5"),
        ((([[1], [2], [3], [4]],), {}), r"shape \(4, 1\)"),
        ((([1, 2, 3, 4],), {"to": "left"}), "unknown side 'left'; choose one of source, target"),
        (((["a", None, "b", "a"],), {}), "all numbers or all strings"),
    ],
)
def test_labels_that_do_not_fit_are_refused(arguments, words):
    given_labels, options = arguments
    with pytest.raises(bot.InputError, match=words):
        match_of(PLAN).class_weights(*given_labels, **options)


def test_sets_without_a_common_class_have_no_accuracy_and_are_told_so():
    with pytest.warns(bot.DataWarning, match=r"no class in common \(source: a, b, c; target: A, B, C\)"):
        result = bot.class_preservation(match_of(PLAN), ["a", "b", "a", "c", "c"], ["A", "B", "C", "C"])
    assert np.isnan(result.accuracy)
    assert result.confusion.sum() == 5


def test_sources_without_mass_do_not_count():
    result = bot.class_preservation(match_of(np.diag([0.5, 0.5, 0.0, 0.0])), [*"baac"], [*"babc"])
    assert result.accuracy == 1
    np.testing.assert_array_equal(result.confusion, np.diag([1, 1, 0]))
    np.testing.assert_array_equal(result.recall, [1, 1, np.nan])


@settings(max_examples=30)
@given(st.integers(1, 15), st.integers(1, 15), st.integers(0, 1000))
def test_confusion_counts_every_source_once(n, m, seed):
    generator = np.random.default_rng(seed)
    plan, labels_a, labels_b = generator.uniform(size=(n, m)), generator.integers(0, 5, n), generator.integers(2, 8, m)
    labels_b[0] = labels_a[0]  # a common class
    result = bot.class_preservation(match_of(plan / plan.sum()), labels_a, labels_b)
    # the class with the largest mass, literally
    classes = np.unique(labels_b)
    expected = np.array([max(classes, key=lambda c: (plan[i, labels_b == c].sum(), -c)) for i in range(n)])
    assert result.accuracy == pytest.approx(np.mean(expected == labels_a))
    counts = [[np.sum((labels_a == one) & (expected == other)) for other in result.classes] for one in result.classes]
    np.testing.assert_array_equal(result.confusion, counts)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(result.recall, np.diag(counts) / np.sum(counts, axis=1))


def test_datasets_with_different_class_lists_are_compared_by_name():
    digits = bot.load("digits")
    a, b = bot.split_halves(digits, per_class=8)
    other = bot.Dataset(b.images, labels=9 - b.labels, classes=digits.classes[::-1])
    plain, reordered = bot.match(a, b), bot.match(a, other)
    np.testing.assert_array_equal(plain.labels().label, reordered.labels().label)
    assert plain.labels().label.to_numpy()[0] == "0"
    assert plain.distance == reordered.distance == plain.coupling.transport_cost


def test_everything_is_shown_in_one_short_line():
    a, b = bot.split_halves(bot.load("digits"), per_class=8)
    match = bot.match(a, b)
    shown = [match, match.coupling, match.coupling.cost, match.top_matches(), match.feature_map]
    for each in (*shown, bot.class_preservation(match), bot.ExactTransport().solve(np.ones((3, 4)))):
        assert repr(each).startswith(type(each).__name__)
        assert len(repr(each)) < 160
        assert "\n" not in repr(each)
    assert "80 x 80 by bispectrum, distance" in repr(match)
    assert "(sqeuclidean), converged: marginal error" in repr(match)
    with pytest.warns(bot.NotConvergedWarning):
        poor = bot.Sinkhorn(max_iter=1).solve(match.coupling.cost)
    assert "NOT converged: marginal error" in repr(poor)
    assert "NOT converged: marginal error" in repr(replace(match, coupling=poor))
