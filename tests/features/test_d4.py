from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.fft import dctn

from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.features.d4 import D4Bispectrum


def move(images, element):
    """Move images (n, side, side[, channels]) by element ``a + 4 b`` of D_4: b mirrors, then a quarter turns."""
    mirrored = images.swapaxes(1, 2) if element >= 4 else images
    return np.rot90(mirrored, element % 4, axes=(1, 2))


def random_images(*shape, seed=0):
    return np.random.default_rng(seed).random(shape)


def difference(first, second):
    return np.abs(first - second).max() / np.abs(second).max()


@pytest.mark.parametrize("shape", [(28, 28), (27, 27), (8, 8, 3), (5, 5, 1), (1, 1)])
def test_turning_and_mirroring_changes_nothing(shape):
    images = random_images(4, *shape)
    bispectrum = D4Bispectrum()
    features = bispectrum.fit_transform(images)
    assert features.dtype == np.float32
    for element in range(8):
        assert difference(bispectrum.transform(move(images, element)), features) < 1e-6


@pytest.mark.parametrize("side", [2, 3])
def test_all_binary_images_are_told_apart(side):
    images = np.array(list(product([0.0, 1.0], repeat=side * side))).reshape(-1, side, side)[1:]
    orbits = {min(tuple(move(image[None], g).ravel()) for g in range(8)) for image in images}
    features = D4Bispectrum(triple_band=side).fit_transform(images)
    assert len(np.unique(np.round(features, 4) + 0.0, axis=0)) == len(orbits)


def test_columns_are_what_the_index_map_says():
    image = random_images(1, 9, 9)
    bispectrum = D4Bispectrum(band=5, triple_band=4).fit(image)
    features = bispectrum.transform(image)[0]
    spectrum = dctn(image[0], norm="ortho")[:5, :5]
    spectrum /= np.linalg.norm(spectrum)
    values = []
    for irrep, _, u, v in bispectrum.components_:
        sign = 1 if irrep in (0, 3) else -1
        pair = np.array([spectrum[u, v], spectrum[v, u]])
        values.append(pair if irrep == 4 else (pair[0] + sign * pair[1]) / (2 if u == v else np.sqrt(2)))
    assert sum(np.sum(np.square(value)) for value in values) == pytest.approx(1)
    formulas = {
        0: lambda a, b, c: a,
        1: lambda a, b, c: a * b,
        2: lambda a, b, c: a * b,
        3: lambda a, b, c: a * b,
        4: lambda a, b, c: a @ b,
        5: lambda a, b, c: c * (a[0] * b[1] - a[1] * b[0]),
        6: lambda a, b, c: c * (a[0] * b[0] - a[1] * b[1]),
        7: lambda a, b, c: c * (a[0] * b[1] + a[1] * b[0]),
        8: lambda a, b, c: a * b * c,
    }
    for column, (kind, first, second, third) in enumerate(bispectrum.index_map_):
        expected = formulas[kind](values[first], values[second], values[third])
        assert features[column] == pytest.approx(expected, abs=1e-6)
    assert set(bispectrum.index_map_["kind"]) == set(range(9))


def test_brightness_is_forgotten_and_blank_images_are_reported():
    images = random_images(3, 8, 8)
    bispectrum = D4Bispectrum().fit(images)
    np.testing.assert_allclose(bispectrum.transform(1e20 * images), bispectrum.transform(images), rtol=1e-5, atol=1e-7)
    images[1] = 0
    with pytest.warns(DataWarning, match="1 of 3 signals"):
        features = bispectrum.transform(images)
    assert not features[1].any()
    assert np.isfinite(features).all()


def test_images_that_are_not_square_are_refused():
    with pytest.raises(InputError, match="5 x 6, but a quarter turn maps only square images"):
        D4Bispectrum().fit(np.zeros((2, 5, 6)))
    with pytest.raises(InputError, match="band must be"):
        D4Bispectrum(band=0).fit(np.zeros((2, 5, 5)))


def test_no_orbit_of_pixels_can_be_moved_by_itself():
    side = 6
    image = random_images(1, side, side)
    bispectrum = D4Bispectrum().fit(image)
    features = bispectrum.transform(image)
    numbers = np.arange(side * side).reshape(1, side, side)
    moved_numbers = np.array([move(numbers, g)[0] for g in range(8)])
    for pixel in [(0, 1), (1, 2), (2, 2)]:
        orbit = np.isin(numbers[0], moved_numbers[:, *pixel])
        for element in range(1, 8):
            partly = np.where(orbit, move(image, element), image)
            if not np.allclose(partly, image):
                assert difference(bispectrum.transform(partly), features) > 1e-4
