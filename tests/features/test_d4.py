from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.fft import dctn
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import check_estimator

from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.features.d4 import D4Bispectrum
from bispectral_ot.groups import DihedralGroup


def move(images, element):
    """Move images (n, side, side[, channels]) by element ``a + 4 b`` of D_4: b mirrors, then a quarter turns."""
    mirrored = images.swapaxes(1, 2) if element >= 4 else images
    return np.rot90(mirrored, element % 4, axes=(1, 2))


def random_images(*shape, seed=0):
    return np.random.default_rng(seed).random(shape)


def difference(first, second):
    return np.abs(first - second).max() / np.abs(second).max()


def test_the_test_moves_images_as_the_group_multiplies():
    group, images = DihedralGroup(4), random_images(1, 5, 5)
    for a in range(8):
        for b in range(8):
            np.testing.assert_array_equal(move(move(images, b), a), move(images, group.table[a, b]))


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


def test_digits_are_told_apart():
    digits = load_digits().images[:400]
    features = D4Bispectrum().fit_transform(digits).astype(float)
    gram = features @ features.T
    norms = np.diag(gram)
    distances = np.sqrt(np.maximum(norms[:, None] + norms - 2 * gram, 0)) + np.eye(400)
    assert distances.min() > 1e-2


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


def test_channels_cannot_be_turned_by_themselves():
    images = random_images(1, 8, 8, 3)
    bispectrum = D4Bispectrum().fit(images)
    partly = images.copy()
    partly[..., 1] = move(images, 1)[..., 1]
    assert difference(bispectrum.transform(partly), bispectrum.transform(images)) > 1e-3


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


def test_size_does_not_depend_on_the_image():
    for side in (16, 28, 40):
        assert D4Bispectrum().fit(random_images(1, side, side)).n_features_out_ == 1137
    assert D4Bispectrum().fit(random_images(1, 16, 16, 3)).n_features_out_ == 5427


def test_brightness_is_forgotten_and_blank_images_are_reported():
    images = random_images(3, 8, 8)
    bispectrum = D4Bispectrum().fit(images)
    np.testing.assert_allclose(bispectrum.transform(1e20 * images), bispectrum.transform(images), rtol=1e-5, atol=1e-7)
    images[1] = 0
    with pytest.warns(DataWarning, match="1 of 3 signals"):
        features = bispectrum.transform(images)
    assert not features[1].any()
    assert np.isfinite(features).all()


class RowsAsChannels(D4Bispectrum):
    """Any row is one pixel with many channels, so that scikit-learn's checks can use rows of any length."""

    def _shape_of_row(self, n_columns):
        return 1, 1, n_columns


def test_scikit_learn_contract():
    outcomes = check_estimator(RowsAsChannels(), on_skip=None)
    skipped = {outcome["check_name"] for outcome in outcomes if outcome["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}  # needs SCIPY_ARRAY_API in the environment


def test_images_that_are_not_square_are_refused():
    with pytest.raises(InputError, match="5 x 6, but a quarter turn maps only square images"):
        D4Bispectrum().fit(np.zeros((2, 5, 6)))
    with pytest.raises(InputError, match="band must be"):
        D4Bispectrum(band=0).fit(np.zeros((2, 5, 5)))
