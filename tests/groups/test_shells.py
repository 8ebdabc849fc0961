import numpy as np
import pytest
import scipy.linalg
from scipy.spatial.transform import Rotation

from bispectral_ot.datasets.clouds import check_clouds
from bispectral_ot.errors import InputError
from bispectral_ot.groups.sphere import ShellBispectrum, invariant_tensor, real_harmonics
from studies.synthetic_shapes import CLASSES


def clouds(n=6, n_points=200, seed=0):
    """Random points, denser on one side: no symmetry of their own."""
    return np.random.default_rng(seed).standard_normal((n, n_points, 3)) ** 2


def turn(shapes, seed=1):
    rotations = Rotation.random(len(shapes), rng=np.random.default_rng(seed))
    return np.array([rotation.apply(shape) for rotation, shape in zip(rotations, shapes, strict=True)])


def change(first, second):
    return np.linalg.norm(first - second, axis=1) / np.linalg.norm(second, axis=1)


def test_turning_moving_and_scaling_change_nothing():
    shapes = clouds()
    shells = ShellBispectrum().fit(shapes)
    features = shells.transform(shapes)
    assert features.dtype == np.float32
    # pairs of 8 shells at 9 degrees, of two forms; triples of two bands
    assert features.shape == (6, shells.n_features_out_) == (6, 2 * 36 * 9 + 252)
    for moved in (turn(shapes), shapes + np.array([5, -2, 1]), 100 * shapes, shapes[:, ::-1]):
        assert change(shells.transform(moved), features).max() < 1e-6


def literal_coefficients(points, masses, n_shells, lmax):
    """Point by point; size 1 is the root mean square radius."""
    centred = points - masses @ points
    size, middles = np.sqrt(masses @ np.sum(centred**2, axis=1)), (np.arange(n_shells) + 0.5) * 2 / n_shells
    total = np.zeros((n_shells, (lmax + 1) ** 2))
    for point, mass in zip(centred, masses, strict=True):
        radius = np.linalg.norm(point) / size
        shares = [np.interp(radius, middles, row) for row in np.eye(n_shells)]
        total += mass * np.outer(shares, real_harmonics(point / np.linalg.norm(point), lmax))
    return np.sqrt(4 * np.pi) * total


def test_coefficients_are_the_formula():
    (shape,) = clouds(1, n_points=30)
    shells = ShellBispectrum(n_shells=3, lmax=2).fit([shape])
    given, rounded = shells.shell_coefficients([shape]).reshape(2, 3, 9)
    masses = np.full(30, 1 / 30)
    np.testing.assert_allclose(given, literal_coefficients(shape, masses, 3, 2), atol=1e-12)
    assert given[:, 0].sum() == pytest.approx(1)  # degree 0: the share of the points on each shell
    covariance = np.cov(shape.T, bias=True)
    covariance += 0.01 * np.trace(covariance) / 3 * np.eye(3)
    made_round = (shape - shape.mean(axis=0)) @ np.linalg.inv(scipy.linalg.sqrtm(covariance))
    np.testing.assert_allclose(rounded, literal_coefficients(made_round, masses, 3, 2), atol=1e-12)


def test_columns_are_what_the_index_map_says():
    shapes = clouds(1)
    shells = ShellBispectrum(n_shells=4, lmax=4).fit(shapes)
    features, forms = shells.transform(shapes)[0], shells.shell_coefficients(shapes).reshape(2, 4, 25)
    bands = np.stack([forms[1, :2].sum(axis=0), forms[1, 2:].sum(axis=0)])

    def compressed(signal, degree, power):
        part = signal[degree**2 : (degree + 1) ** 2]
        return part * np.linalg.norm(part) ** (power - 1)

    seen = set()
    for value, (is_round, order, l1, l2, l3, s1, s2, s3) in zip(features, shells.index_map_, strict=True):
        seen.add((is_round, order))
        if order == 2:
            assert (l1, l3, s3) == (l2, -1, -1)
            product = compressed(forms[is_round, s1], l1, 0.5) @ compressed(forms[is_round, s2], l2, 0.5)
            assert value == pytest.approx(product, abs=1e-6)
        else:
            parts = [compressed(bands[s], degree, 1 / 3) for s, degree in ((s1, l1), (s2, l2), (s3, l3))]
            scale = np.sqrt((2 * (l1 + l2 + l3) + 3) / 3)
            triple = np.einsum("ijk,i,j,k", scale * invariant_tensor(l1, l2, l3), *parts)
            assert value == pytest.approx(triple, abs=1e-6)
    assert seen == {(0, 2), (1, 2), (1, 3)}
    weights = [set(shells.feature_weights_[shells.index_map_["round"] == form]) for form in (0, 1)]
    assert weights == [{0.5}, {1.0}]


def test_volumes_may_be_turned_moved_and_made_brighter():
    volume = np.zeros((16, 16, 16))
    volume[4:12, 4:7, 5:9] = 1
    volume[4:7, 4:13, 5:8] = 2
    shells = ShellBispectrum().fit([volume])
    features = shells.transform([volume])
    quarter, padded = np.rot90(volume, axes=(1, 2)), np.pad(volume, ((0, 0), (3, 1), (0, 5)))
    for moved in (quarter, np.roll(volume, 2, axis=2), padded, 7 * volume + 3):
        assert change(shells.transform([moved]), features) < 1e-5


def test_handedness_is_seen_by_the_bispectrum_only():
    shapes = clouds(3)
    mirrored, shells = shapes * [1, 1, -1], ShellBispectrum().fit(shapes)
    before, after, second = shells.transform(shapes), shells.transform(mirrored), shells.index_map_["order"] == 2
    odd = ~second & (sum(shells.index_map_[name] for name in ("l1", "l2", "l3")) % 2 == 1)
    np.testing.assert_allclose(after[:, ~odd], before[:, ~odd], atol=1e-6)
    np.testing.assert_allclose(after[:, odd], -before[:, odd], atol=1e-6)
    assert np.abs(before[:, odd]).max() > 1e-3


def test_lists_padded_clouds_and_meshes():
    shapes = clouds(2).astype(np.float32)
    parts = [shapes[0], shapes[1, :150]]
    shells = ShellBispectrum().fit(parts)
    np.testing.assert_array_equal(shells.transform(check_clouds(parts)), shells.transform(parts))
    vertices, faces = CLASSES["box"](np.random.default_rng(0))
    features, turned = shells.transform([(vertices, faces)]), Rotation.from_euler("xyz", [1, 2, 3]).apply(vertices)
    assert change(shells.transform([(turned, faces)]), features) < 1e-6


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (np.zeros((2, 4, 5)), r"array \(n, n_points, 3\)"),
        (np.zeros((1, 5, 5, 5)), "shape 0 .* only background"),
        ([], "no shapes"),
        ([np.zeros((4, 2))], r"shape 0 .* expected points \(n_points, 3\)"),
        ([np.eye(3), np.array([[np.nan, 0, 0], [1, 2, 3]])], "shape 1 .* NaN"),
        ([np.eye(3), np.ones((4, 3))], "shape 1 .* one position"),
        ([(np.eye(3), np.array([[0, 1, 5]]))], "mesh 0 .* faces name vertices"),
        ([(np.zeros((3, 3)), np.array([[0, 1, 2]]))], "no area"),
    ],
)
def test_bad_shapes_and_options_are_refused(shapes, message):
    with pytest.raises(InputError, match=message):
        ShellBispectrum().fit_transform(shapes)
    with pytest.raises(InputError, match="lmax must be"):
        ShellBispectrum(lmax=-1).fit(clouds(1))
