from itertools import product

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.groups.sphere import SphereBispectrum, equiangular_grid, real_harmonics
from sphere_oracles import rotate_coefficients, slow_bispectrum

ROTATIONS = [Rotation.from_euler("ZYZ", angles) for angles in ([0.4, 1.1, -2.3], [3.0, 0.2, 0.1], [0, 3.1, 1])]


def change(first, second):
    """Relative change of each row."""
    return np.linalg.norm(first - second, axis=1) / np.linalg.norm(second, axis=1)


def random_coefficients(lmax, n=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, (lmax + 1) ** 2))


def on_grid(coefficients, shape=(24, 40)):
    lmax = round(np.sqrt(coefficients.shape[-1])) - 1
    return np.einsum("xyk,nk->nxy", real_harmonics(equiangular_grid(*shape)[0], lmax), coefficients)


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_exact_rotation_changes_nothing(rotation):
    before = random_coefficients(8)
    after = rotate_coefficients(before, rotation)
    assert np.abs(after - before).max() > 0.5
    bispectrum = SphereBispectrum(lmax=8).fit(on_grid(before))
    assert change(bispectrum.transform(on_grid(after)), bispectrum.transform(on_grid(before))).max() < 1e-6


def test_columns_are_the_formula():
    coefficients = random_coefficients(5, n=1)
    bispectrum = SphereBispectrum(lmax=5, normalize=False).fit(on_grid(coefficients))
    features, total = bispectrum.transform(on_grid(coefficients))[0], 0.0
    columns = zip(features, bispectrum.feature_weights_, bispectrum.index_map_, strict=True)
    for value, weight, (l1, l2, l3, *_) in columns:
        literal = slow_bispectrum(coefficients[0], l1, l2, l3)
        scale = np.sqrt((2 * np.array([l1, l2, l3]) + 1).mean() / (2 * l3 + 1))
        assert abs(value) == pytest.approx(scale * abs(literal), rel=1e-5, abs=1e-6)
        assert min(abs(literal.real), abs(literal.imag)) < 1e-12  # one column is enough
        total += weight * value**2
    complete = sum(abs(slow_bispectrum(coefficients[0], *degrees)) ** 2 for degrees in product(range(6), repeat=3))
    assert total == pytest.approx(complete, rel=1e-5)


def test_what_the_power_spectrum_cannot_see():
    coefficients = random_coefficients(6, n=1)
    bispectrum = SphereBispectrum(lmax=6, normalize=False).fit(on_grid(coefficients))
    features = bispectrum.transform(on_grid(coefficients))
    inverted = coefficients * np.repeat((-1.0) ** np.arange(7), 2 * np.arange(7) + 1)  # f(-x)
    apart = coefficients.copy()
    apart[:, 9:16] = rotate_coefficients(coefficients, ROTATIONS[0])[:, 9:16]  # degree 3 turned by itself
    for other in (inverted, apart):
        changed = bispectrum.transform(on_grid(other))
        assert change(changed, features).max() > 1e-2
        power = bispectrum.index_map_["l1"] == 0
        np.testing.assert_allclose(changed[:, power], features[:, power], rtol=1e-5)


def test_scattered_points_scales_and_blanks():
    rng = np.random.default_rng(0)
    points, coefficients = rng.standard_normal((400, 3)), random_coefficients(6)
    signals = coefficients @ real_harmonics(points, 6).T
    scattered = SphereBispectrum(lmax=6, points=points).fit(signals)
    grid = SphereBispectrum(lmax=6).fit(on_grid(coefficients))
    np.testing.assert_allclose(scattered.harmonic_coefficients(signals)[:, 0], coefficients, atol=1e-10)
    assert change(scattered.transform(1e20 * signals), grid.transform(on_grid(coefficients))).max() < 1e-6
    signals[0] = 0
    with pytest.warns(DataWarning, match="1 of 3"):
        assert not scattered.transform(signals)[0].any()


def test_channels_turn_together():
    before = random_coefficients(4, n=2)
    after, stacked = rotate_coefficients(before, ROTATIONS[0]), np.moveaxis(on_grid(before), 0, -1)[None]
    bispectrum = SphereBispectrum(lmax=4).fit(stacked)
    features = bispectrum.transform(stacked)
    assert change(bispectrum.transform(np.moveaxis(on_grid(after), 0, -1)[None]), features) < 1e-6
    one_turned = np.moveaxis(on_grid(np.stack([before[0], after[1]])), 0, -1)[None]
    assert change(bispectrum.transform(one_turned), features) > 1e-2
    assert set(bispectrum.index_map_["s3"]) == {0, 1}


@pytest.mark.parametrize(
    ("bispectrum", "shape", "message"),
    [
        (SphereBispectrum(lmax=4), (2, 100), "are not a grid"),
        (SphereBispectrum(lmax=4), (2, 4, 8), "do not determine"),
        (SphereBispectrum(lmax=1, points=np.zeros((9, 3))), (2, 9), "not zero"),
        (SphereBispectrum(lmax=1, points=np.eye(3)), (2, 5), "5 values, but there are 3 points"),
    ],
)
def test_bad_input_is_refused(bispectrum, shape, message):
    with pytest.raises(InputError, match=message):
        bispectrum.fit(np.zeros(shape))
