"""Bispectra of finite groups and of the circle: formula, invariance, completeness, inversion."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone

from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.features import CyclicBispectrum, GroupBispectrum
from bispectral_ot.groups import CyclicGroup, DihedralGroup
from group_examples import EXAMPLES, example, random_signals, slow_bispectrum, triple_correlation_bispectrum
from oracles import cyclic_bispectrum, unit

COEFFICIENTS = ("full", "selective")
values = st.floats(-8, 8, width=32).map(lambda value: round(value, 2))
signals_of_any_length = st.integers(1, 12).flatmap(lambda n: arrays(np.float64, n, elements=values))


def relative(first, second):
    return np.abs(first - second).max() / np.abs(second).max()


@pytest.mark.parametrize("name", EXAMPLES)
def test_weighted_distances_are_those_between_the_matrices_of_appendix_c(name):
    """Of ``F_rho^H``, the transform of ``f(g^-1)``."""
    group = example(name)
    signals, n = random_signals(group, 3), len(group.irreps)
    pairs = [*product(range(n), repeat=2)]
    blocks = ([slow_bispectrum(group, each, r, s).ravel() for r, s in pairs] for each in signals[:, group.inverse])
    complete = np.array([*map(np.concatenate, blocks)])
    literal = triple_correlation_bispectrum(group, signals[0, group.inverse], n - 1, n - 1)
    np.testing.assert_allclose(complete[0, -literal.size :], literal.ravel(), atol=1e-10)
    bispectrum = GroupBispectrum(group, normalize=False).fit(signals)
    features, weights = bispectrum.transform(signals).astype(float), bispectrum.feature_weights_
    assert features.shape[1] < group.order**2 / 2
    for a, b in combinations(range(3), 2):
        expected = np.linalg.norm(complete[a] - complete[b])
        np.testing.assert_allclose(np.sqrt(weights @ (features[a] - features[b]) ** 2), expected, rtol=1e-5)
    np.testing.assert_allclose((features**2) @ weights, np.linalg.norm(complete, axis=1) ** 2, rtol=1e-5)


@pytest.mark.parametrize("coefficients", COEFFICIENTS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_moving_a_signal_changes_nothing(name, coefficients):
    group = example(name)
    signals, bispectrum = random_signals(group, 5), GroupBispectrum(group, coefficients=coefficients)
    features = bispectrum.fit_transform(signals)
    assert features.dtype == np.float32
    for element in range(group.order):
        assert relative(bispectrum.transform(group.translate(signals, element)), features) < 1e-6


def signals_to_distinguish(group):
    """Every signal over a small alphabet; on the larger groups, every one with few places off a constant."""
    if group.order <= 8:
        return np.array(list(product([0.3, 1.0, -0.7], repeat=group.order)))
    if group.order <= 12:
        return np.array(list(product([0.3, 1.0], repeat=group.order)))
    places = np.array(list(combinations(range(group.order), 4)))
    signals = np.full((len(places), group.order), 0.3)
    np.put_along_axis(signals, places[:, :3], 1.0, axis=1)
    np.put_along_axis(signals, places[:, 3:], -0.7, axis=1)
    return signals


def count_distinct(rows, tolerance):
    """Number of clusters of rows, as neighbours in the order of a random projection."""
    direction = np.random.default_rng(0).standard_normal(rows.shape[1])
    rows = rows[np.argsort(rows @ direction, kind="stable")]
    return 1 + int((np.abs(np.diff(rows, axis=0)).max(axis=1) > tolerance).sum())


@pytest.mark.parametrize("coefficients", COEFFICIENTS)
@pytest.mark.parametrize("name", ["Z/8", "Z/2 x Z/4", "D_4", "Q_8", "A_4", "S_4"])
def test_only_moved_signals_have_equal_bispectra(name, coefficients):
    group = example(name)
    signals = signals_to_distinguish(group)
    parts = (np.tensordot(signals, irrep, axes=1) for irrep in group.irreps)
    smallest = [np.linalg.svd(part, compute_uv=False)[:, -1] for part in parts]
    signals = signals[np.min(smallest, axis=0) > 1e-6]  # completeness needs invertible Fourier coefficients
    assert len(signals) > 400
    moved = [group.translate(signals, element) for element in range(group.order)]
    first_of_orbit = np.array(sorted({min(map(tuple, orbit)) for orbit in zip(*moved, strict=True)}))
    bispectrum = GroupBispectrum(group, coefficients=coefficients, normalize=False)
    features = bispectrum.fit_transform(first_of_orbit).astype(float)
    assert len(first_of_orbit) < len(signals)
    assert count_distinct(features / np.abs(features).max(), 1e-6) == len(first_of_orbit)


@pytest.mark.parametrize(
    ("bispectrum", "shape", "message"),
    [
        (GroupBispectrum(DihedralGroup(4)), (2, 7), "8 elements"),
        (GroupBispectrum("D_4"), (2, 8), "must be a FiniteGroup"),
        (CyclicBispectrum(), (2, 3, 3), "dim 3"),
    ],
)
def test_bad_input_is_refused(bispectrum, shape, message):
    with pytest.raises(InputError, match=message):
        bispectrum.fit(np.ones(shape))


@pytest.mark.parametrize("bispectrum", [GroupBispectrum(CyclicGroup(8)), CyclicBispectrum()], ids=["group", "cyclic"])
def test_scales_blanks_and_rounding(bispectrum):
    signals = random_signals(CyclicGroup(8), 2)
    features = clone(bispectrum).fit_transform(signals)
    np.testing.assert_allclose(features**2 @ bispectrum.fit(signals).feature_weights_, 1, rtol=1e-5)
    for scale in (1e20, 1e-20, 1e200):
        np.testing.assert_allclose(bispectrum.transform(scale * signals), features, rtol=1e-5)
        with pytest.raises(InputError, match="range of float32"):
            clone(bispectrum).set_params(normalize=False).fit_transform(scale * signals)
    # a pure cosine has no two frequencies whose sum it also has: its bispectrum is zero up to rounding
    cosines = np.cos(2 * np.pi * np.add.outer(np.arange(8), np.arange(8)) / 8 + 0.3)
    for normalize in (False, True):
        with pytest.warns(DataWarning, match="9 of 9 signals"):
            blank = clone(bispectrum).set_params(normalize=normalize).fit_transform([*cosines, np.zeros(8)])
        assert not blank.any()


def generic(signal, least=0.02):
    spectrum = np.abs(np.fft.fft(signal))
    return bool(spectrum.min() > least * spectrum.max())


def shifts(signal):
    return np.stack([np.roll(signal, shift) for shift in range(len(signal))])


@settings(max_examples=60)
@given(signals_of_any_length, st.booleans())
def test_cyclic_columns_are_the_literal_formula(signal, normalize):
    expected = cyclic_bispectrum(signal)
    assume(np.linalg.norm(expected) > 1e-3)
    if normalize:
        expected = unit(expected.ravel()).reshape(expected.shape)
    folded = CyclicBispectrum(normalize=normalize).fit(signal[None])
    column = folded.index_map_
    at_columns = expected[column["i"], column["j"]]
    at_columns = np.where(column["part"] == 0, at_columns.real, at_columns.imag)
    np.testing.assert_allclose(folded.transform(signal[None])[0], at_columns, atol=1e-6 * np.linalg.norm(expected))


@settings(max_examples=60)
@given(signals_of_any_length, st.booleans())
def test_cyclic_inversion_recovers_the_signal_up_to_a_shift(signal, normalize):
    assume(generic(signal))
    transformer = CyclicBispectrum(coefficients="selective", normalize=normalize).fit(signal[None])
    features = transformer.transform(shifts(signal))
    assert np.abs(features - features[0]).max() <= 1e-6 * np.abs(np.fft.fft(signal)).max() ** 3
    assert features.shape[1] <= len(signal) + 1
    recovered = transformer.invert(features)[0]
    if normalize:
        recovered *= np.linalg.norm(signal) / np.linalg.norm(recovered)
    error = np.abs(shifts(signal) - recovered).max(axis=1).min()
    assert error <= 1e-5 * np.abs(np.fft.fft(signal)).max()


@pytest.mark.parametrize(
    ("signal", "frequency"),
    [([2.0, 1.0, 2.0, 1.0], 1), (1 + np.cos(2 * np.pi * np.arange(9) / 9), 2), ([0.0, 0.0, 0.0], 0)],
)
@pytest.mark.filterwarnings("ignore::bispectral_ot.errors.DataWarning")
def test_cyclic_inversion_names_a_vanishing_coefficient(signal, frequency):
    batch = np.array([np.arange(len(signal)) ** 2 + 1.0, signal])
    transformer = CyclicBispectrum(coefficients="selective", normalize=False).fit(batch)
    with pytest.raises(InputError, match=f"signal 1 .* frequency {frequency}"):
        transformer.invert(transformer.transform(batch))
