"""Tests of what changed: verdicts case by case, levels and power on small sets."""

import numpy as np
import pytest
from scipy import ndimage

import bispectral_ot as bot
from bispectral_ot.comparing import resampling, symmetry_tests
from bispectral_ot.comparing.change_tests import CHANGES, SymmetryTests, Verdict, change_test
from studies.changes import contradicts

CLEAR = dict.fromkeys(CHANGES, 0.005)
SHARP = Verdict("explained", ("sharpness",))
QUARTER = Verdict("explained", ("quarter turns",))
CLASSES = Verdict("explained", ("class proportions",), "classes")
SEVERAL = Verdict("undecided", ("intensity", "mirrors"), "several")
MINIMAL = ("intensity", "sharpness", "mirrors", "quarter turns")
NONE = dict.fromkeys(CHANGES, 0.5)


@pytest.fixture(scope="module")
def halves():
    return bot.split_halves(bot.load("digits"), per_class=20)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (NONE, Verdict("same")),
        (NONE | {"rotation": 0.03}, Verdict("same")),
        (CLEAR, Verdict("changed")),
        (CLEAR | {"all of these": 0.4}, Verdict("explained", ("all of these",))),
        (CLEAR | {"intensity": 0.4, "all of these": 0.4}, Verdict("explained", ("intensity",))),
        # quarter turns are rotations, and all that they explain these explain
        (CLEAR | dict.fromkeys(("quarter turns", "rotation", "all of these"), 0.4), QUARTER),
        (CLEAR | {"rotation": 0.4, "all of these": 0.4}, Verdict("explained", ("rotation",))),
        (CLEAR | dict.fromkeys(("sharpness", "rotation", "translation", "scale", "all of these"), 0.3), SHARP),
        # a test that allows for more contradicts
        (CLEAR | {"rotation": 0.4}, Verdict("changed")),
        (CLEAR | {"rotation": 0.4, "all of these": 0.04}, Verdict("changed")),
        # but not one of several, significant only before the correction
        (CLEAR | dict.fromkeys(("sharpness", "rotation", "scale", "all of these"), 0.3) | {"translation": 0.04}, SHARP),
        (CLEAR | {"intensity": 0.4, "mirrors": 0.2, "all of these": 0.4}, SEVERAL),
        # the plain test sees nothing, another one does
        (NONE | {"rotation": 0.005}, Verdict("undecided", reason="conflict")),
        (NONE | {"nothing": 0.04}, Verdict("undecided", MINIMAL, "several")),
        (CLEAR | {"class proportions": 0.4, "classes": 0.005}, CLASSES),
        (CLEAR | {"class proportions": 0.4, "classes": 0.3}, Verdict("changed")),
        (NONE | {"class proportions": 0.4, "classes": 0.005}, CLASSES),
        (NONE | {"class proportions": 0.02, "classes": 0.005}, Verdict("changed", reason="classes")),
        (NONE | {"classes": 0.005}, Verdict("undecided", reason="classes")),  # too few images of common classes
        # only the distance differs: a change of content if no change explains it
        (CLEAR | {"nothing": 0.2, "distance": 0.005}, Verdict("changed")),
        (CLEAR | {"nothing": 0.2, "distance": 0.005, "all of these": 0.4}, Verdict("undecided", reason="distance")),
    ],
)
def test_verdicts_case_by_case(changed, expected):
    p_values = {name: p for name, p in changed.items() if name != "distance"}
    tests = SymmetryTests("one", "other", p_values, 0.05, {}, changed.get("distance"))
    found, sentence = tests.verdict, tests.sentence
    assert found == expected
    assert ("No difference" in sentence) == (found.kind == "same")
    assert any(each in sentence for each in ("content is different", "differ as well")) == (found.kind == "changed")
    assert ("Undecided" in sentence) == (found.kind == "undecided")
    for name in found.changes:
        assert f"{name} (p = {changed[name]:.3g}" in sentence.replace("all tested changes together", "all of these")


def test_no_verdict_contradicts_a_p_value():
    random, kinds = np.random.default_rng(0), set()
    for _ in range(500):
        levels = [0.005, 0.02, 0.04, 0.06, 0.3, 0.9][random.integers(6) :]
        names = [*CHANGES, "classes", "class proportions"][: random.choice([-2, -1, 99])]
        distance = random.choice([None, random.choice(levels)])
        p_values = {name: random.choice(levels) for name in names}
        tests = SymmetryTests("one", "other", p_values, 0.05, {}, distance)
        assert not contradicts(tests.sentence, 0.05), (tests.sentence, p_values)
        kinds.add((tests.verdict.kind, tests.verdict.reason))
    assert len(kinds) == 9  # all that there are
    assert contradicts("No difference is found (p = 0.01).", 0.05)


def test_p_values_are_those_of_closed_testing():
    p_values = {"nothing": 0.01, "mirrors": 0.04, "rotation": 0.02, "all of these": 0.5, "classes": 0.04}
    found = SymmetryTests("one", "other", p_values, 0.05, {}, 0.02).adjusted
    holm = {"nothing": 0.03, "distance": 0.04, "classes": 0.04}
    assert found == pytest.approx(holm | {"mirrors": 0.04, "rotation": 0.03, "all of these": 0.5})


CASES = {
    "same": (lambda images: images, None),
    "blurred": (lambda images: ndimage.gaussian_filter(images, (0, 0.7, 0.7)), "sharpness"),
    "brighter": (lambda images: images * 1.1, "intensity"),
    "mirrored": (lambda images: images[:, :, ::-1], "mirrors"),
    "quarter turns": (lambda images: np.rot90(images, axes=(1, 2)), "quarter turns"),
    "turned": (lambda images: bot.rotate_randomly(images, seed=1).images, "rotation"),
    "negative": (lambda images: 16 - images, "changed"),
}


@pytest.mark.parametrize("name", CASES)
def test_simple_changes_are_named(name):
    """Three of five draws at least; nothing is an alarm where nothing changed, in four of them."""
    change, expected = CASES[name]
    right = 0
    for seed in range(5):
        first, second = bot.split_halves(bot.load("digits"), per_class=15, seed=seed)
        verdict = symmetry_tests(bot.Dataset(first.images), bot.Dataset(change(second.images.astype("f4")))).verdict
        if expected is None:
            right += verdict.kind == "same"
        else:
            right += expected in (*verdict.changes, verdict.kind) and verdict.kind != "undecided"
    assert right >= (4 if expected is None else 3)


def test_clipped_brightness_is_named_and_a_removed_texture_is_found():
    """Textures without orientation or position: pixels at one place say nothing, and bright ones are clipped."""
    random = np.random.default_rng(5)

    def textures(n, kinds):
        sigmas = random.choice(kinds, n)
        noise = [ndimage.gaussian_filter(random.normal(size=(32, 32)), sigma, mode="wrap") for sigma in sigmas]
        return bot.Dataset(np.clip([128 + 50 * x / x.std() for x in noise], 0, 255).astype(np.uint8))

    kinds = [0.7, 1.0, 1.5, 2.5]
    first, second = textures(200, kinds), textures(200, kinds)
    brighter = bot.Dataset(np.clip(second.images * 1.15, 0, 255).astype(np.uint8))
    assert symmetry_tests(first, brighter).verdict == Verdict("explained", ("intensity",))
    assert symmetry_tests(first, textures(200, kinds[1:])).verdict.kind == "changed"


def test_what_stands_out_is_seen_whatever_the_contrast():
    """Pits in a third of the surfaces, all of one mean and deviation: "intensity" was said to explain that."""
    random = np.random.default_rng(0)
    found = random.normal(size=(200, 24, 24, 1))
    found[:30] += 8 * (random.random(found[:30].shape) < 0.01)
    found /= 12 * found.std(axis=(1, 2, 3), keepdims=True)
    images = [np.clip(0.5 + each, 0, 1).astype(np.float32) for each in np.split(found, 2)]
    assert change_test(images, CHANGES["intensity"], 39, random) <= 0.05


def test_plain_corners_are_no_loss_of_sharpness():
    """Surfaces without directions that an editor turned and filled: "sharpness" was said to explain that."""
    random = np.random.default_rng(0)
    images = 0.5 + 0.1 * random.normal(size=(120, 64, 64, 1)) + 0.2 * random.random((120, 1, 1, 1))
    images[60:, abs(np.mgrid[-31.5:32, -31.5:32]).sum(axis=0) > 54] = images[60:].mean(axis=(1, 2))[:, None]
    assert change_test(np.split(images.astype(np.float32), 2), CHANGES["sharpness"], 39, random) == 1 / 40


def test_a_removed_class_is_found_by_its_labels(halves):
    found = symmetry_tests(halves[0], halves[1].select(halves[1].labels > 2))
    assert found.p_values["classes"] == 1 / 200
    assert found.verdict == CLASSES, found.p_values


def test_turned_images_are_not_called_different():
    """Rejections of 20 tests at 5 %: 4 or fewer with a probability of 99.7 %; without resampling, all are."""
    digits = bot.load("digits").images.astype(np.float32)
    rejected = {True: 0, False: 0}
    for repeat in range(20):
        random = np.random.default_rng([7, repeat])
        at, order = random.permutation(len(digits))[:240], (0, 1, 3)[repeat % 3]
        turned = [ndimage.rotate(x, random.uniform(0, 360), reshape=False, order=order) for x in digits[at[120:]]]
        images = [x[..., None] / 16 for x in (digits[at[:120]], np.clip(np.stack(turned), 0, 16))]
        rejected[True] += change_test(images, CHANGES["rotation"], 39, random) <= 0.05
        rejected[False] += change_test(images, CHANGES["nothing"], 39, random) <= 0.05
    assert rejected[True] <= 4
    assert rejected[False] == 20


@pytest.mark.parametrize(("name", "order"), [("nearest", 0), ("bilinear", 1)])
def test_resampling_is_that_of_scipy(name, order):
    images = np.random.default_rng(0).random((3, 12, 10, 2)).astype(np.float32)
    maps = resampling.random_maps(images, np.random.default_rng(1), turn=True, zoom=True)
    found = resampling.resampled(images, maps, name, (0.0, 1.0))
    for i, map_ in enumerate(maps):
        for channel in range(2):
            plane = images[i, :, :, channel].astype(np.float64)
            expected = ndimage.affine_transform(plane, map_[:, :2], map_[:, 2], order=order, mode="nearest")
            near = np.abs(found[i, :, :, channel] - expected) < 0.02
            assert near.mean() > 0.97  # a table of 256 fractions: neighbours at exactly half a pixel may differ


@pytest.mark.parametrize(
    ("count", "other", "permutations", "message"),
    [
        (19, 1, 199, "19 images; symmetry tests need at least 20"),
        (40, 1, 99, "too few for 8 tests.*use at least 159"),
        (40, 0, 199, "40 images of 'digits.*' are also in"),
    ],
)
def test_bad_input_is_explained(halves, count, other, permutations, message):
    sets, stages = [halves[i].select(slice(count)) for i in (0, other)], set()
    with pytest.raises(bot.InputError, match=message):
        symmetry_tests(*sets, permutations)
    if count == 19:  # before any distance is computed
        with pytest.raises(bot.InputError, match=message):
            bot.compare(sets, symmetry_tests=True, progress=lambda stage, *_: stages.add(stage))
    assert "features" not in stages


def test_changes_that_cannot_be_tested_are_named():
    random = np.random.default_rng(0)
    classes = np.repeat(["a", "b"], [10, 30]), np.repeat(["a", "c"], [10, 30])
    textures = [bot.Dataset(random.random((40, 12, 16)), each) for each in classes]
    found = symmetry_tests(*textures)
    assert {*found.left_out} == {"quarter turns", "translation", "scale", "class proportions"}
    assert found.verdict == Verdict("undecided", reason="classes")
    assert [*found.p_values] == ["nothing", "intensity", "sharpness", "mirrors", "rotation", "all of these", "classes"]
    p_values = dict.fromkeys(CHANGES, 0.005) | {"classes": 0.5}
    found = SymmetryTests("one", "other", p_values, 0.05, {"scale": "", "class proportions": ""})
    assert found.sentence.endswith("could not be tested (scale).")  # proportions are no change, and were tested


def test_filled_corners_are_no_change_of_content_and_blank_images_hide_none():
    """White corners of turned images gave "changed"; where four of five images are black, nothing was found."""
    random = np.random.default_rng(0)
    images = np.zeros((80, 32, 32))
    images[:, [4, 5, 6, 25, 26, 27], 14:18] = random.uniform(0.5, 1, (80, 6, 1))
    for image in images[40:]:
        image[:] = ndimage.rotate(image, random.uniform(0, 360), reshape=False, order=1, cval=1.0)
    assert change_test(np.split(images[..., None].astype("f4"), 2), CHANGES["all of these"], 39, random) > 0.05
    blank = np.zeros((160, 12, 12, 1), np.float32)
    blank[::5] = random.random((32, 12, 12, 1)) * np.repeat([0.3, 1.0], 16)[:, None, None, None]
    assert change_test(np.split(blank, 2), CHANGES["nothing"], 39, random) == 1 / 40


def test_sharpness_is_measured_on_images_of_all_classes():
    images = np.random.default_rng(0).random((600, 16, 16, 1)).astype(np.float32)
    images[300:] = resampling.blurred(images[300:], 1.0)
    first, second = resampling.matching_blurs([images, images[::-1]])
    assert first == pytest.approx(second, abs=0.1)
