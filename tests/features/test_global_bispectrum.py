"""Global bispectra: the literal formula, invariance, completeness."""

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from bispectral_ot.datasets import rotate
from bispectral_ot.features import GlobalBispectrum, RingBispectrum
from coupled_oracles import coupled_bispectrum


def distance(transformer: GlobalBispectrum, x: NDArray, y: NDArray) -> NDArray:
    """Euclidean distances of the rows of two feature matrices, whose rows have unit norm."""
    return np.sqrt(((x - y) ** 2 * transformer.feature_weights_).sum(axis=1))


def blobs(*positions: tuple[float, float], size: int = 28, width: float = 1.5) -> NDArray[np.float64]:
    """Gaussian blobs at (radius, angle in degrees) about the centre of an image."""
    y, x = np.indices((size, size)) - (size - 1) / 2
    image = np.zeros((size, size))
    for radius, degrees in positions:
        angle = np.deg2rad(degrees)
        square = (x - radius * np.cos(angle)) ** 2 + (y - radius * np.sin(angle)) ** 2
        image += np.exp(-square / (2 * width**2))
    return image


def scribbles(n: int, *, size: int = 28, seed: int = 0) -> NDArray[np.float64]:
    """Smooth images without any symmetry, within the inscribed disk."""
    random = np.random.default_rng(seed)
    places = zip(random.uniform(1, size / 2 - 5, (n, 6)), random.uniform(0, 360, (n, 6)), strict=True)
    return np.array([blobs(*zip(*place, strict=True), size=size) for place in places])


@pytest.mark.parametrize(("size", "cell"), [((12, 12), 1), ((9, 14), 1), ((47, 45), 3)])  # large ones by their means
def test_matches_the_literal_formula(size, cell):
    image = np.random.default_rng(0).uniform(size=size)
    options = {"n_rings": 3, "n_angles": 11, "radius": 1.1, "edge_weight": 1.5}
    transformer = GlobalBispectrum(max_frequency=4, **options).fit(image[None])
    assert transformer.cell_ == cell
    expected = coupled_bispectrum(image, transformer.index_map_, cell=cell, **options)
    np.testing.assert_allclose(transformer.transform(image[None])[0], expected, atol=2e-6)


@pytest.mark.parametrize("shape", [(28, 28), (21, 21), (20, 31), (97, 97, 3), (128, 128), (130, 171)])
def test_turns_of_the_pixel_grid_change_nothing(shape):
    images = np.random.default_rng(0).uniform(size=(3, *shape))
    transformer = GlobalBispectrum().fit(images)
    features = transformer.transform(images)
    for turn in (1, 2, 3):
        turned = GlobalBispectrum().fit_transform(np.rot90(images, turn, axes=(1, 2)))
        assert distance(transformer, features, turned).max() < 2e-5


def test_mirror_images_are_equal_up_to_reflection_only():
    images = np.stack([scribbles(4), np.random.default_rng(0).uniform(size=(4, 28, 28))]).reshape(8, 28, 28)
    for symmetry in ("rotation", "rotation-reflection"):
        transformer = GlobalBispectrum(symmetry=symmetry).fit(images)
        x = transformer.transform(images)
        for mirrored in (images[:, ::-1], images[:, :, ::-1], images.transpose(0, 2, 1)):
            moved = distance(transformer, x, transformer.transform(mirrored))
            if symmetry == "rotation":
                assert moved.min() > 0.2
            else:
                assert moved.max() < 2e-5


@pytest.mark.parametrize("power", [0.5, 0.8, 1.0])
def test_an_image_comes_back_from_its_features_up_to_rotation(power):
    """Products of two give the coefficients of each frequency up to a phase, the triples give the phases."""
    images = scribbles(3, size=16)
    transformer = GlobalBispectrum(n_rings=5, max_frequency=5, power=power, edge_weight=0)
    features = transformer.fit_transform(images)
    coefficients = transformer._coefficients(images.reshape(3, -1))[:, :, 0]
    for row, truth in zip(features.astype(np.float64), coefficients, strict=True):
        found = _coefficients_from_features(transformer, row)
        found *= np.linalg.norm(truth) / np.linalg.norm(found)
        angle = np.angle(np.vdot(found[1], truth[1]))
        found = found * np.exp(1j * angle * np.arange(len(found)))[:, None]
        assert np.linalg.norm(found - truth) < 0.01 * np.linalg.norm(truth)


def _coefficients_from_features(transformer: GlobalBispectrum, row: NDArray) -> NDArray[np.complex128]:
    """(n_frequencies, n_radial) up to a rotation and a positive factor."""
    n_frequencies, n_radial = transformer.max_frequency + 1, transformer.n_rings
    grams = np.zeros((n_frequencies, n_radial, n_radial), dtype=complex)
    triples: dict[tuple[int, ...], complex] = {}
    for column, value in zip(transformer.index_map_, row, strict=True):
        kind, _, i, j, r, s, t, part = column.tolist()
        entry = value * (1j if part else 1)
        if kind == 0:
            grams[i, r, s] += entry
            if r != s:
                grams[i, s, r] += np.conj(entry)
        else:
            triples[i, j, r, s, t] = triples.get((i, j, r, s, t), 0) + entry
    values, vectors = np.linalg.eigh(grams)
    coefficients = np.sqrt(values[:, -1:]) * vectors[:, :, -1]
    magnitudes = np.abs(coefficients)
    magnitudes[magnitudes == 0] = 1
    coefficients = coefficients * magnitudes ** (1 / transformer.power - 1)

    def bands(k: int) -> NDArray:
        edges = [0, transformer.n_rings // 2, transformer.n_rings]
        return np.array([coefficients[k, a:b].mean() for a, b in itertools.pairwise(edges)])

    if triples[0, 0, 0, 0, 0].real * bands(0)[0].real < 0:
        coefficients[0] *= -1
    for k in range(1, n_frequencies - 1):
        one, this, after = bands(1), bands(k), bands(k + 1)
        agreement = sum(
            np.conj(triples[1, k, r, s, t]) * one[r] * this[s] * np.conj(after[t])
            for r, s, t in itertools.product(range(2), repeat=3)
            if (1, k, r, s, t) in triples
        )
        coefficients[k + 1] *= np.exp(1j * np.angle(agreement))
    return coefficients


def test_really_turned_pixels_move_little():
    """Interpolation moves features by 0.14 of the distance to another image (measured), 0.21 of the nearest at most."""
    images = scribbles(30)
    turned = rotate(images, np.random.default_rng(1).uniform(0, 360, 30), fill=0).images
    transformer = GlobalBispectrum().fit(images)
    x, y = transformer.transform(images), transformer.transform(turned)
    others = np.array([distance(transformer, x, np.roll(x, shift, axis=0)) for shift in range(1, 30)])
    moved = distance(transformer, x, y)
    assert np.median(moved) < 0.16 * np.median(others)
    assert (moved < 0.25 * others.min(axis=0)).all()


def test_brightness_and_contrast_do_not_count():
    images = scribbles(3)
    transformer = GlobalBispectrum().fit(images)
    x = transformer.transform(images)
    # faint edges at the limit of float32 are rounded otherwise
    assert distance(transformer, x, transformer.transform(7.3 * images + 2.1)).max() < 1e-3
    scale = 255 / images.max()
    steps = transformer.transform((scale * images).round().astype(np.uint8))
    assert distance(transformer, x, steps).max() < 0.06
    again = transformer.transform((scale * images).round() / 100 - 30)
    assert distance(transformer, steps, again).max() < 1e-4


def test_rings_that_turn_separately_are_seen():
    """An inner and an outer part, the outer one turned by a quarter: every ring alone is as before."""
    inner, outer = blobs((3, 10), (4, 100), width=0.6), blobs((10.5, 20), (10.5, 80), (10, 300), width=0.6)
    inner[inner < 1e-3] = 0
    outer[outer < 1e-3] = 0
    images = np.stack([inner + outer, inner + np.rot90(outer)])
    rings = RingBispectrum(sampling="bilinear").fit_transform(images)
    np.testing.assert_allclose(rings[0], rings[1], atol=1e-6)
    transformer = GlobalBispectrum().fit(images)
    x = transformer.transform(images)
    assert distance(transformer, x[:1], x[1:])[0] > 0.3


def test_frequencies_that_turn_separately_are_seen_by_the_triples_only():
    """The frequencies 1 and 2 of an image, one of them turned by itself: all products of two are as before."""
    y, x = np.indices((41, 41)) - 20
    radius, angle = np.hypot(x, y), np.arctan2(y, x)
    window = radius**2 * np.exp(-((radius / 7) ** 2))
    images = np.stack([window * (2 + np.cos(angle) + np.cos(2 * angle + turn)) for turn in (0, np.pi / 2)])
    pairs = GlobalBispectrum(edge_weight=0, n_bands=0).fit(images)
    features = pairs.transform(images)
    assert distance(pairs, features[:1], features[1:])[0] < 0.02
    complete = GlobalBispectrum(edge_weight=0, triple_weight=1).fit(images)
    features = complete.transform(images)
    assert distance(complete, features[:1], features[1:])[0] > 0.1
    # edges are seen where frequencies meet, so that they tell the two apart as well
    edges = GlobalBispectrum(n_bands=0).fit(images)
    features = edges.transform(images)
    assert distance(edges, features[:1], features[1:])[0] > 0.1


def test_odd_parts_keep_their_signs_to_each_other():
    """Mirroring the odd frequencies alone leaves all real parts and all magnitudes of imaginary parts of pairs."""
    transformer = GlobalBispectrum(symmetry="rotation-reflection", edge_weight=0, n_bands=0)
    transformer.fit(np.ones((1, 12, 12)))
    coefficients = transformer._coefficients(np.random.default_rng(0).normal(size=(1, 144)).astype(np.float32))
    coefficients = np.concatenate([coefficients, coefficients])
    coefficients[1, 1::2] = coefficients[1, 1::2].conj()
    out = np.empty((2, transformer.n_features_out_), dtype=np.float32)
    transformer._coefficients = lambda rows: rows
    transformer._fill(coefficients, out)
    x, y = out[:1], out[1:]
    assert distance(transformer, x, y)[0] > 0.2
    magnitudes = transformer.index_map_["kind"] == 2
    half = magnitudes.sum() // 2
    first = x.shape[1] - 2 * half
    np.testing.assert_allclose(x[:, : first + half], y[:, : first + half], atol=1e-6)
