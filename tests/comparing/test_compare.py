"""Distances between sets: known answers, POT, and what must hold whatever the sets are."""

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.comparing.divergence import solve_potentials
from bispectral_ot.costs import Cost


@pytest.fixture(scope="module")
def digits():
    return bot.load("digits")


@pytest.fixture(scope="module")
def halves(digits):
    return bot.split_halves(digits, per_class=20)


@pytest.fixture(scope="module")
def others():
    random = np.random.default_rng(0)
    return random.integers(0, 17, size=(150, 8, 8)).astype(np.uint8)


@pytest.fixture(scope="module")
def comparison(halves, others):
    sets = {"first": halves[0], "second": halves[1], "noise": others}
    return bot.compare(sets, permutations=39, bootstrap=80)


def points(n, seed, shift=0.0):
    return np.random.default_rng(seed).normal(size=(n, 3)) + shift


def divergence(costs, reg, tol):
    first, last = (solve_potentials(cost, reg, tol=tol, within=True) for cost in (costs[0], costs[2]))
    return solve_potentials(costs[1], reg, tol=tol).value - first.value / 2 - last.value / 2


def test_the_divergence_is_that_of_pot():
    ot, x, y = pytest.importorskip("ot"), points(120, 0), points(100, 1, shift=0.5)
    scale = float(((x[:, None] - y) ** 2).sum(axis=2).max())
    costs = [Cost(one, other, "sqeuclidean", scale=scale) for one, other in ((x, x), (x, y), (y, y))]
    found = divergence(costs, reg=0.1, tol=1e-9)
    try:
        expected = ot.solve_sample(x, y, reg=0.1 * scale, debias=True, tol=1e-11, max_iter=20_000).value
    except TypeError:
        pytest.skip("this POT has no debiased divergences")
    assert found == pytest.approx(expected, rel=1e-7)


def test_bounds_hold_for_solves_that_stop_early():
    x, y = points(60, 2), points(50, 3, shift=1.0)
    cost, own = Cost(x, y, "sqeuclidean"), Cost(x, x, "sqeuclidean")
    for tol in (1e-1, 1e-2, 1e-3):
        for each, within in ((cost, False), (own, True)):
            best, found = (solve_potentials(each, 0.05, tol=t, within=within) for t in (1e-11, tol))
            assert -1e-9 <= best.value - found.value <= found.error + 1e-12


def test_another_population_is_far_and_the_same_is_near(comparison):
    same, other = comparison.pair("first", "second"), comparison.pair("noise", "first")
    assert other.distance > 4 * same.distance
    assert 0.8 < same.ratio < 1.25
    assert same.p_value > 0.05
    assert other.p_value == 1 / 40
    assert other.low < other.distance < other.high
    for matrix in (comparison.distances, comparison.errors, comparison.references):
        np.testing.assert_array_equal(matrix, matrix.T)
    assert (np.diag(comparison.distances) == 0).all()
    assert (comparison.errors < 1e-4).all()


def test_copies_and_permutations_are_at_zero(halves):
    order = np.random.default_rng(5).permutation(len(halves[0]))
    found = bot.compare({"one": halves[0], "copy": halves[0], "shuffled": halves[0].select(order)})
    assert (np.abs(found.distances) <= found.errors).all()


def test_volumes_are_compared_up_to_rotations():
    volumes = np.pad(np.random.default_rng(0).random((8, 4, 4, 4)) + 1, ((0, 0), *[(2, 2)] * 3))
    sets = {"a": volumes[:4], "turned": np.rot90(volumes[:4], axes=(2, 3)), "b": volumes[4:]}
    found = bot.compare(sets, symmetry="so3-shapes").distances
    assert abs(found[0, 1]) < 0.01 * found[0, 2]


def test_contributions_sum_to_the_distance(comparison):
    pair = comparison.pair("first", "noise")
    parts = pair.source_contributions, pair.target_contributions
    assert [part.shape for part in parts] == [(200,), (150,)]
    assert parts[0].sum() + parts[1].sum() == pair.distance
    assert parts[0].sum() == pytest.approx(parts[1].sum())
    top = pair.source_top
    assert (np.diff(top.contributions) <= 0).all()
    assert top.contributions[0] == parts[0].max()
    assert (top.counterparts < 150).all()


def test_class_contributions_sum_to_the_distance(halves):
    sevens = halves[1].labels == 7
    found = bot.compare({"all": halves[0], "no sevens": halves[1].select(~sevens)})
    parts = found.class_contributions("all", "no sevens")
    assert sum(parts["all"].values()) + sum(parts["no sevens"].values()) == pytest.approx(found.pairs[0].distance)
    assert max(parts["all"], key=parts["all"].get) == "7"


def test_finished_parts_are_reused_whatever_the_order_and_names(halves, others, tmp_path, monkeypatch):
    sets = {"first": halves[0], "second": halves[1], "noise": others}
    once = bot.compare(sets, permutations=19, bootstrap=40, store=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3 + 3 + 3  # self-terms, sampling biases, pairs
    monkeypatch.setattr("bispectral_ot.transport.Sinkhorn.solve", None)
    renamed = {"b": halves[1], "a": halves[0], "c": others}
    again = bot.compare(renamed, permutations=19, bootstrap=40, store=tmp_path)
    for one, other in (("first", "second"), ("first", "noise"), ("second", "noise")):
        names = {"first": "a", "second": "b", "noise": "c"}
        expected, found = once.pair(one, other), again.pair(names[one], names[other])
        for name in ("distance", "p_value", "low", "high"):
            assert getattr(found, name) == getattr(expected, name)
    flipped, plain = again.pair("a", "b"), once.pair("first", "second")
    assert (flipped.source, flipped.target) == ("b", "a")
    np.testing.assert_array_equal(flipped.source_contributions, plain.target_contributions)
    np.testing.assert_array_equal(flipped.target_top.counterparts, plain.source_top.counterparts)


@pytest.mark.parametrize("change", [{"reg": 0.2}, {"seed": 1}, {"features": "pixels"}, "pixel"])
def test_other_content_or_options_are_computed_anew(halves, others, tmp_path, change):
    sets = {"first": halves[0].select(slice(40)), "second": halves[1].select(slice(40))}
    bot.compare(sets, permutations=19, store=tmp_path)
    if change == "pixel":
        images = sets["second"].images.copy()
        images[0, 4, 4] += 1
        sets["second"], change = images, {}
    found = bot.compare(sets, permutations=19, store=tmp_path, **change)
    assert found.settings["reused"] == 0
    assert found.table() == bot.compare(sets, permutations=19, **change).table()


def test_labels_separate_what_images_do_not(halves):
    first, second = halves

    def labelled(dataset, is_one, names):
        return bot.Dataset(dataset.images, np.array(names)[is_one.astype(int)])

    sets = {
        "first": labelled(first, first.labels > 4, ["low", "high"]),
        "second": labelled(second, second.labels > 4, ["small", "large"]),
        "parity": labelled(second, second.labels % 2 == 1, ["even", "odd"]),
    }
    plain, with_labels = bot.compare(sets), bot.compare(sets, labels=True)
    assert plain.distances[0, 1] == pytest.approx(plain.distances[0, 2])
    beyond = with_labels.distances - with_labels.references
    assert beyond[0, 2] > 1.5 * beyond[0, 1]
    again = bot.compare(dict(reversed(sets.items())), labels=True)
    np.testing.assert_array_equal(again.distances[::-1, ::-1], with_labels.distances)
    with pytest.warns(bot.DataWarning, match="200 of the 600 images are copies"):  # "second" and "parity"
        tests = [bot.compare(sets, permutations=19, labels=labels).p_values for labels in (False, True)]
    np.testing.assert_array_equal(*tests)  # labels say nothing of the set in a test


@pytest.mark.parametrize(
    ("sets", "options", "message"),
    [
        ({"only": 0}, {}, "at least two sets"),
        ("mnist", {}, "mapping"),
        ([0, 0], {}, "two sets are named 'digits"),
        ({"one": 0, "large": np.ones((3, 9, 9))}, {}, "8 x 8"),
        ({"one": 0, "blank": np.zeros((3, 8, 8))}, {}, "'blank'"),
        ({"one": 0, "single": np.eye(8)[None]}, {}, "only one image"),
        ({"one": 0, "other": 1}, {"permutations": 5}, "at least 19"),
        ({"one": 0, "other": 1}, {"features": (np.eye(3), np.eye(3))}, "got tuple"),
        ({"one": 0, "other": 1}, {"permutations": 19, "level": 0.01}, "at least 99"),
        ({"one": 0, "other": np.random.default_rng(0).random((5, 8, 8))}, {"labels": True}, "'other' has none"),
    ],
)
@pytest.mark.filterwarnings("ignore::bispectral_ot.DataWarning")
def test_bad_input_is_explained(sets, options, message, halves):
    if isinstance(sets, dict):
        sets = {name: halves[entry] if isinstance(entry, int) else entry for name, entry in sets.items()}
    elif isinstance(sets, list):
        sets = [halves[entry] for entry in sets]
    with pytest.raises(bot.InputError, match=message):
        bot.compare(sets, **options)


def test_the_unit_is_the_spread_of_the_sets_and_a_test_does_not_see_which_set_is_which(halves, digits):
    """Order, unit and the split decide nothing in a test: its p-values are uniform for halves of one population."""
    sets = {"first": halves[0], "second": halves[1]}
    plain = bot.compare(sets, features="pixels", permutations=19)
    doubled = bot.compare({name: each.images * 2.0 for name, each in sets.items()}, features="pixels", permutations=19)
    assert doubled.pairs[0].distance == pytest.approx(plain.pairs[0].distance, rel=1e-3)
    p_values = []
    for seed in range(30):
        order = np.random.default_rng(seed).permutation(len(digits))
        parts = {"small": digits.images[order[:20]], "large": digits.images[order[20:100]]}
        p_values.append(bot.compare(parts, features="pixels", pca=8, permutations=19).pairs[0].p_value)
    assert 0.35 < np.mean(p_values) < 0.68
    assert np.mean(np.array(p_values) <= 0.1) <= 0.3
