from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from bispectral_ot.datasets.shapes import CLASSES, synthetic_shapes
from bispectral_ot.errors import InputError
from bispectral_ot.invariants.harmonics import real_harmonics
from bispectral_ot.invariants.shells import ShellBispectrum


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
    assert features.shape == (6, shells.n_features_out_) == (6, 1267)
    for moved in (turn(shapes), shapes + np.array([5, -2, 1]), 100 * shapes, shapes[:, ::-1]):
        assert change(shells.transform(moved), features).max() < 1e-6


def test_coefficients_are_the_formula():
    (shape,) = clouds(1, n_points=30)
    shells = ShellBispectrum(n_shells=3, lmax=2).fit([shape])
    coefficients = shells.shell_coefficients([shape]).reshape(3, 9)
    centred = shape - shape.mean(axis=0)
    size = np.sqrt(np.mean(np.sum(centred**2, axis=1)))
    middles = (np.arange(3) + 0.5) * 2 / 3
    expected = np.zeros((3, 9))
    for point in centred:
        radius = np.linalg.norm(point) / size
        shares = [np.interp(radius, middles, row) for row in np.eye(3)]
        expected += np.outer(shares, real_harmonics(point / np.linalg.norm(point), 2))
    np.testing.assert_allclose(coefficients, expected * np.sqrt(4 * np.pi) / 30, atol=1e-12)
    assert coefficients[:, 0].sum() == pytest.approx(1)  # degree 0: the share of the points on each shell


def test_columns_are_what_the_index_map_says():
    shapes = clouds(1)
    shells = ShellBispectrum(n_shells=4, lmax=3).fit(shapes)
    features = shells.transform(shapes)[0]
    coefficients = shells.shell_coefficients(shapes).reshape(4, 16)
    for value, (order, l1, l2, l3, s1, s2, s3) in zip(features, shells.index_map_, strict=True):
        first, second = coefficients[s1, l1**2 : (l1 + 1) ** 2], coefficients[s2, l2**2 : (l2 + 1) ** 2]
        if order == 2:
            assert (l1, l3, s3) == (l2, -1, -1)
            assert value == pytest.approx(first @ second, abs=1e-6)
        elif l1 == 0:
            third = coefficients[s3, l3**2 : (l3 + 1) ** 2]
            scale = np.sqrt((1 + 2 * (2 * l2 + 1)) / 3 / (2 * l2 + 1))
            assert abs(value) == pytest.approx(scale * abs(first[0] * (second @ third)), abs=1e-6)
    assert (shells.index_map_["order"] == 2).sum() == 4 * 10
    spread = shells.index_map_[shells.index_map_["order"] == 3]
    assert (np.ptp([spread[name] for name in ("s1", "s2", "s3")], axis=0) <= 1).all()


def test_a_shell_cannot_turn_by_itself():
    shapes = clouds(1, n_points=400)
    shapes -= shapes.mean(axis=1, keepdims=True)
    radii = np.linalg.norm(shapes[0], axis=1)
    inner = radii < np.median(radii)
    # both parts have their centroid at the origin, so turning one of them moves nothing else
    for part in (inner, ~inner):
        shapes[0, part] -= shapes[0, part].mean(axis=0)
    partly = shapes.copy()
    partly[0, inner] = Rotation.from_euler("xyz", [1, 1, 1]).apply(shapes[0, inner])
    for reach in (0, 1):
        shells = ShellBispectrum(reach=reach).fit(shapes)
        assert change(shells.transform(partly), shells.transform(shapes)) > 1e-3


def test_handedness_is_seen_by_the_bispectrum_only():
    shapes = clouds(3)
    mirrored = shapes * [1, 1, -1]
    shells = ShellBispectrum().fit(shapes)
    before, after = shells.transform(shapes), shells.transform(mirrored)
    second = shells.index_map_["order"] == 2
    odd = ~second & (sum(shells.index_map_[name] for name in ("l1", "l2", "l3")) % 2 == 1)
    np.testing.assert_allclose(after[:, ~odd], before[:, ~odd], atol=1e-6)
    np.testing.assert_allclose(after[:, odd], -before[:, odd], atol=1e-6)
    assert np.abs(before[:, odd]).max() > 1e-3


def test_lists_of_clouds_of_any_size_and_meshes():
    rng = np.random.default_rng(0)
    shapes = clouds(2)
    shells = ShellBispectrum().fit([shapes[0], shapes[1, :150]])
    np.testing.assert_array_equal(shells.transform(list(shapes)), shells.transform(shapes))
    vertices, faces = CLASSES["box"](rng)
    features = shells.transform([(vertices, faces)])
    turned = Rotation.from_euler("xyz", [1, 2, 3]).apply(vertices)
    assert change(shells.transform([(turned, faces)]), features) < 1e-6
    more = clone(shells).set_params(n_samples=20_000, seed=1).fit([(vertices, faces)])
    assert change(more.transform([(vertices, faces)]), features) < 0.05


def test_without_scaling_sizes_differ():
    shapes = clouds(2)
    shells = ShellBispectrum(scale=False).fit(shapes)
    assert change(shells.transform(turn(shapes)), shells.transform(shapes)).max() < 1e-6
    assert change(shells.transform(1.5 * shapes), shells.transform(shapes)).min() > 0.05


def test_shapes_find_their_class_however_they_are_turned():
    known = synthetic_shapes(12, n_points=400, seed=0, turned=False)
    turned = synthetic_shapes(3, n_points=400, seed=1)
    shells = ShellBispectrum()
    reference, queries = shells.fit_transform(known.images), shells.transform(turned.images)
    distances = np.abs((queries[:, None] - reference) * shells.feature_weights_).sum(axis=2)
    assert np.mean(known.labels[distances.argmin(axis=1)] == turned.labels) > 0.7
    raw = np.abs(turned.images[:, None] - known.images).sum(axis=(2, 3))
    assert np.mean(known.labels[raw.argmin(axis=1)] == turned.labels) < 0.4


def test_a_point_in_the_centre_counts_for_degree_zero_only():
    shape = np.concatenate([np.eye(3), -np.eye(3), np.zeros((1, 3))])
    coefficients = ShellBispectrum(n_shells=2, lmax=3).fit([shape]).shell_coefficients([shape])
    assert np.isfinite(coefficients).all()
    assert coefficients.reshape(2, 16)[0, 0] == pytest.approx(1 / 7 + 6 / 7 * (1.5 - np.sqrt(7 / 6)))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (np.zeros((4, 3)), r"array \(n, n_points, 3\)"),
        ([], "no shapes"),
        ([np.zeros((4, 2))], r"shape 0 .* expected points \(n_points, 3\)"),
        ([np.eye(3), np.full((4, 3), np.nan)], "shape 1 .* NaN"),
        ([np.eye(3), np.ones((4, 3))], "shape 1 .* one place"),
        ([(np.eye(3), np.array([[0, 1, 5]]))], "mesh 0 .* faces name vertices"),
        ([(np.zeros((3, 3)), np.array([[0, 1, 2]]))], "no area"),
        ([(np.eye(3), np.zeros((1, 3)))], "faces must be integers"),
        ([(np.eye(2), np.array([[0, 1, 1]]))], "vertices must be"),
    ],
)
def test_bad_shapes_are_refused(shapes, message):
    with pytest.raises(InputError, match=message):
        ShellBispectrum().fit_transform(shapes)


def test_each_shape_is_worked_on_once_and_told_about(monkeypatch):
    numbers, calls = [], []
    compute = ShellBispectrum._coefficients_of
    monkeypatch.setattr(
        ShellBispectrum,
        "_coefficients_of",
        lambda self, cloud, number: numbers.append(number) or compute(self, cloud, number),
    )
    shells = ShellBispectrum(n_shells=2, lmax=2).fit(clouds(40))
    assert numbers == []
    shells.transform(clouds(40), progress=lambda *call: calls.append(call))
    assert sorted(numbers) == list(range(40))
    done = [done for stage, done, total in calls if stage == "shells" and total == 40]
    assert len(done) > 1
    assert done[-1] == 40
    assert calls[-1] == ("features", 40, 40)


@pytest.mark.parametrize("method", ["transform", "shell_coefficients"])
def test_it_must_be_fitted_first(method):
    for scale in (True, False):
        with pytest.raises(NotFittedError):
            getattr(ShellBispectrum(scale=scale), method)(clouds(1))


def test_bad_parameters_are_refused():
    with pytest.raises(InputError, match="n_shells must be"):
        ShellBispectrum(n_shells=0).fit(clouds(1))
    with pytest.raises(InputError, match="lmax must be"):
        ShellBispectrum(lmax=-1).fit(clouds(1))
