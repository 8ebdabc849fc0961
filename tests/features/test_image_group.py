"""Bispectra of images under finite groups of maps."""

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.datasets import rotate
from bispectral_ot.features import ImageBispectrum, ImageGroup, choose_features

IMAGES = np.random.default_rng(0).random((4, 16, 16))


def glide(image):
    return np.roll(image[:, ::-1], len(image) // 2, axis=0)


def turn(degrees):
    angle = np.radians(degrees)
    return [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]


@pytest.mark.parametrize(
    ("group", "move", "other"),
    [
        ("mirrors", lambda x: x[:, :, ::-1], lambda x: x[:, ::-1]),
        ("quarter-turns", lambda x: np.rot90(x, axes=(1, 2)), lambda x: x[:, ::-1]),
        (ImageGroup([np.rot90, np.fliplr]), lambda x: x.swapaxes(1, 2), lambda x: np.roll(x, 3, axis=1)),
        (ImageGroup([glide]), lambda x: np.stack([glide(image) for image in x]), lambda x: x[:, :, ::-1]),
    ],
)
@pytest.mark.parametrize("channels", [(), (3,)])
def test_the_group_and_nothing_else_is_ignored(group, move, other, channels):
    images = np.random.default_rng(1).random((4, 16, 16, *channels))
    features = ImageBispectrum(symmetry=group).fit(images)
    rows = features.transform(images)
    np.testing.assert_allclose(features.transform(move(images)), rows, atol=1e-6)
    assert np.abs(features.transform(other(images)) - rows).max() > 0.02 * np.abs(rows).max()


def test_sixths_of_a_turn():
    from scipy.ndimage import gaussian_filter

    images = gaussian_filter(np.random.default_rng(0).random((3, 64, 64)), (0, 4, 4))
    images -= images.mean()
    group = ImageGroup([turn(60)], name="six-fold")
    assert group.order((64, 64)) == 6
    features = ImageBispectrum(symmetry=group).fit(images)
    rows = features.transform(images)

    def change(degrees):
        moved = features.transform(rotate(images, np.full(3, float(degrees))).images)
        return (np.abs(moved - rows).sum(axis=1) / np.abs(rows).sum(axis=1)).max()

    assert change(120) < 0.05
    assert change(30) > 0.5


def test_a_match_up_to_mirrors_and_up_to_an_own_group():
    source, target = bot.split_halves(bot.load("digits"), per_class=10, seed=0)
    flipped = bot.Dataset(source.images[:, :, ::-1], source.labels, name="mirrored", classes=source.classes)
    plain, moved = (bot.match(side, target, symmetry="mirrors") for side in (source, flipped))
    np.testing.assert_allclose(plain.coupling.cost.block(0, 100), moved.coupling.cost.block(0, 100), atol=1e-5)
    own = bot.match(flipped, target, symmetry=ImageGroup([np.fliplr], name="left and right"))
    assert own.settings["symmetry"] == "left and right"
    assert own.settings["features"] == "ImageBispectrum"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ImageGroup([]), "at least one map"),
        (lambda: ImageGroup([np.rot90, np.eye(2)]), "all of one kind"),
        (lambda: ImageGroup([np.eye(3)]), "must be 2 x 2"),
        (lambda: ImageGroup([2 * np.eye(2)]).elements((8, 8)), "keeps areas"),
        (lambda: ImageGroup([turn(1)]).elements((8, 8)), "more than 64 elements"),
        (lambda: ImageGroup([np.rot90]).elements((8, 6)), "does not permute the pixels"),
        (lambda: ImageGroup([np.zeros(64, dtype=int)]).elements((8, 8)), "does not permute the pixels"),
        (lambda: choose_features("pixels", symmetry=ImageGroup([np.rot90])), "leave features out"),
    ],
)
def test_maps_that_are_no_group_are_refused(make, message):
    with pytest.raises(bot.InputError, match=message):
        make()


def test_correlations_follow_their_definition():
    fitted, expected = slow_features(IMAGES, ImageGroup([np.rot90, np.fliplr]))
    np.testing.assert_allclose(fitted.transform(IMAGES)[:, : expected.shape[1]], expected, atol=1e-6)


def slow_features(images, group):
    """Correlations of second order by their definition, for permutations; the templates are those of the class."""
    fitted = ImageBispectrum(symmetry=group, n_columns=200).fit(images)
    elements = group.elements(images.shape[1:])
    templates = fitted.basis_[:, 0].astype(np.float64)
    rows = []
    for image in images:
        signals = np.zeros((len(templates), len(elements)))
        for g, element in enumerate(elements):
            for a, template in enumerate(templates):
                moved = np.empty_like(template)
                moved[element] = template
                signals[a, g] = moved @ image.ravel()
        signals /= np.linalg.norm(signals)
        product = [
            [next(k for k, e in enumerate(elements) if (e == one[two]).all()) for two in elements] for one in elements
        ]
        rows.append(
            [
                sum(signals[a, g] * signals[b, product[g][u]] for g in range(len(elements)))
                for a in range(len(templates))
                for b in range(a, len(templates))
                for u in range(len(elements))
            ]
        )
    return fitted, np.array(rows)
