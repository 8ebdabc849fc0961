"""Bispectra of images under finite groups of maps."""

from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest
from scipy.fft import dctn
from scipy.ndimage import gaussian_filter

import bispectral_ot as bot
from bispectral_ot.datasets import rotate
from bispectral_ot.features import D4Bispectrum, ImageBispectrum, ImageGroup, choose_features


def glide(image):
    return np.roll(image[:, ::-1], len(image) // 2, axis=0)


def turn(degrees):
    angle = np.radians(degrees)
    return [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]


def move(images, element):
    """Images moved by element ``a + 4 b`` of D_4: b mirrors, then a quarter turns."""
    return np.rot90(images.swapaxes(1, 2) if element >= 4 else images, element % 4, axes=(1, 2))


@pytest.mark.parametrize(
    ("group", "moves", "other"),
    [
        ("mirrors", lambda x: x[:, :, ::-1], lambda x: x[:, ::-1]),
        ("quarter-turns", lambda x: np.rot90(x, axes=(1, 2)), lambda x: x[:, ::-1]),
        ("d4", lambda x: move(x, 5), lambda x: np.roll(x, 3, axis=1)),
        (ImageGroup([glide]), lambda x: np.stack([glide(image) for image in x]), lambda x: x[:, :, ::-1]),
    ],
)
@pytest.mark.parametrize("shape", [(16, 16), (16, 16, 3), (27, 27)])
def test_the_group_and_nothing_else_is_ignored(group, moves, other, shape):
    images = np.random.default_rng(1).random((4, *shape))
    if group not in ("mirrors", "quarter-turns", "d4") and shape[0] % 2:
        return  # a glide by half a side needs an even one
    features = ImageBispectrum(symmetry=group).fit(images)
    rows = features.transform(images)
    np.testing.assert_allclose(features.transform(moves(images)), rows, atol=1e-6)
    assert np.abs(features.transform(other(images)) - rows).max() > 0.02 * np.abs(rows).max()


@pytest.mark.parametrize("side", [2, 3])
def test_all_binary_images_are_told_apart(side):
    images = np.array(list(product([0.0, 1.0], repeat=side * side))).reshape(-1, side, side)[1:]
    for kind, elements in (("d4", range(8)), ("quarter-turns", range(4))):
        orbits = {min(tuple(move(image[None], g).ravel()) for g in elements) for image in images}
        features = ImageBispectrum(symmetry=kind).fit_transform(images)
        assert len(np.unique(np.round(features, 4) + 0.0, axis=0)) == len(orbits)


def test_columns_of_d4_are_the_literal_formulas():
    """Irreps of D_4 in the cosine transform: sums and differences of ``c[u, v]`` and ``c[v, u]``; signs are free."""
    image = np.random.default_rng(0).random((1, 9, 9))
    features, c = D4Bispectrum(band=5, triple_band=4).fit(image), dctn(image[0], norm="ortho")[:5, :5]
    c /= np.linalg.norm(c)

    def components(band, parity, sign):
        pairs = combinations_with_replacement([k for k in range(band) if k % 2 == parity], 2)
        return [(c[u, v] + sign * c[v, u]) / (2 if u == v else np.sqrt(2)) for u, v in pairs if sign > 0 or u < v]

    kinds = {"a1": (0, 1), "b1": (0, -1), "b2": (1, 1), "a2": (1, -1)}
    high, low = ({name: components(band, *kind) for name, kind in kinds.items()} for band in (5, 4))
    vectors = {n: [np.array([c[u, v], c[v, u]]) for u in range(1, n, 2) for v in range(0, n, 2)] for n in (5, 4)}
    second = [p * q for each in high.values() for p, q in combinations_with_replacement(each, 2)]
    second += [p @ q for p, q in combinations_with_replacement(vectors[5], 2)]
    third = [p * q * r for p in low["a2"] for q in low["b1"] for r in low["b2"]]
    third += [s * (p[0] * q[1] - p[1] * q[0]) for s in low["a2"] for p, q in combinations(vectors[4], 2)]
    third += [0.0 for _ in low["a2"] for _ in vectors[4]]
    for p, q in combinations_with_replacement(vectors[4], 2):
        third += [s * (p[0] * q[0] - p[1] * q[1]) for s in low["b1"]]
        third += [s * (p[0] * q[1] + p[1] * q[0]) for s in low["b2"]]
    found = features.transform(image)[0]
    for order, expected in ((1, high["a1"]), (2, second), (3, third)):
        columns = found[features.index_map_["order"] == order]
        np.testing.assert_allclose(np.sort(np.abs(columns)), np.sort(np.abs(expected)), atol=1e-6)


def test_sixths_of_a_turn():
    images = gaussian_filter(np.random.default_rng(0).random((3, 64, 64)), (0, 4, 4))
    images -= images.mean()
    features = ImageBispectrum(symmetry=ImageGroup([turn(60)], name="six-fold")).fit(images)
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
    assert (own.settings["symmetry"], own.settings["features"]) == ("left and right", "ImageBispectrum")
    with pytest.warns(bot.DataWarning, match="have the symmetry 'own group', not 'rotation'"):
        choose_features(ImageBispectrum(symmetry=ImageGroup([np.fliplr])), symmetry="rotation")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ImageGroup([np.rot90, np.eye(2)]), "all of one kind"),
        (lambda: ImageGroup([2 * np.eye(2)]).elements((8, 8)), "keeps areas"),
        (lambda: ImageGroup([turn(1)]).elements((8, 8)), "more than 64 elements"),
        (lambda: D4Bispectrum().fit(np.zeros((2, 8, 6))), "quarter turns need square images"),
        (lambda: ImageGroup([np.zeros(64, dtype=int)]).elements((8, 8)), "does not permute the pixels"),
        (lambda: choose_features("pixels", symmetry=ImageGroup([np.rot90])), "leave features out"),
    ],
)
def test_maps_that_are_no_group_are_refused(make, message):
    with pytest.raises(bot.InputError, match=message):
        make()
