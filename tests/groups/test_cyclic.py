"""The 1-D bispectrum: formula, invariance, completeness, inversion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.features import CyclicBispectrum
from oracles import METRICS, cyclic_bispectrum, distance, unit

values = st.floats(-8, 8, width=32).map(lambda value: round(value, 2))
signals = st.integers(1, 12).flatmap(lambda n: arrays(np.float64, n, elements=values))


def generic(signal: NDArray[np.float64], least: float = 0.02) -> bool:
    spectrum = np.abs(np.fft.fft(signal))
    return bool(spectrum.min() > least * spectrum.max())


def shifts(signal: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([np.roll(signal, shift) for shift in range(len(signal))])


@settings(max_examples=60)
@given(signals, st.booleans())
def test_full_is_the_literal_formula(signal: NDArray[np.float64], normalize: bool) -> None:
    expected = cyclic_bispectrum(signal)
    assume(np.linalg.norm(expected) > 1e-3)
    if normalize:
        expected = unit(expected.ravel()).reshape(expected.shape)
    folded = CyclicBispectrum(normalize=normalize).fit(signal[None])
    column = folded.index_map_
    at_columns = expected[column["i"], column["j"]]
    at_columns = np.where(column["part"] == 0, at_columns.real, at_columns.imag)
    np.testing.assert_allclose(folded.transform(signal[None])[0], at_columns, atol=1e-6 * np.linalg.norm(expected))


@pytest.mark.parametrize("n", [5, 8])
def test_folded_distances_are_the_unfolded_ones(n: int) -> None:
    pair = np.random.default_rng(0).normal(size=(2, n))
    folded = CyclicBispectrum(normalize=False).fit(pair)
    unfolded = [cyclic_bispectrum(signal).ravel() for signal in pair]
    for metric in METRICS:
        expected = distance(*(np.concatenate([each.real, each.imag]) for each in unfolded), metric)
        assert distance(*folded.transform(pair), metric, folded.feature_weights_) == pytest.approx(expected, rel=1e-5)


@settings(max_examples=60)
@given(signals, st.sampled_from(["full", "selective"]))
def test_invariant_to_every_shift(signal: NDArray[np.float64], coefficients: str) -> None:
    assume(np.abs(signal).max() > 0.1)
    assume(np.linalg.norm(cyclic_bispectrum(signal)) > 1e-3)
    features = CyclicBispectrum(coefficients=coefficients, normalize=False).fit_transform(shifts(signal))
    scale = np.abs(np.fft.fft(signal)).max() ** 3
    assert np.abs(features - features[0]).max() <= 1e-6 * scale


@settings(max_examples=100)
@given(signals, st.booleans())
def test_inversion_recovers_the_signal_up_to_a_shift(signal: NDArray[np.float64], normalize: bool) -> None:
    assume(generic(signal))
    transformer = CyclicBispectrum(coefficients="selective", normalize=normalize).fit(signal[None])
    features = transformer.transform(signal[None])
    assert features.shape[1] <= len(signal) + 1
    recovered = transformer.invert(features)[0]
    if normalize:
        recovered *= np.linalg.norm(signal) / np.linalg.norm(recovered)
    error = np.abs(shifts(signal) - recovered).max(axis=1).min()
    assert error <= 1e-5 * np.abs(np.fft.fft(signal)).max()


@settings(max_examples=100)
@given(st.integers(1, 12).flatmap(lambda n: arrays(np.float64, (2, n), elements=values)))
def test_different_orbits_have_different_bispectra(pair: NDArray[np.float64]) -> None:
    assume(generic(pair[0], 0.05) and generic(pair[1], 0.05))
    apart = np.abs(shifts(pair[0]) - pair[1]).max(axis=1).min()
    scale = np.abs(np.fft.fft(pair)).max()
    assume(apart > 1e-3 * scale)
    for coefficients in ("full", "selective"):
        x, y = CyclicBispectrum(coefficients=coefficients, normalize=False).fit_transform(pair)
        assert np.abs(x - y).max() > 1e-5 * np.abs(np.stack([x, y])).max()


def test_a_mirrored_signal_is_told_apart() -> None:
    signal = np.array([1.0, 5.0, 2.0, 0.5, 3.0])
    x, y = CyclicBispectrum(normalize=False).fit_transform([signal, signal[::-1]])
    assert np.abs(x - y).max() > 1


def test_long_signals_invert() -> None:
    batch = np.random.default_rng(5).uniform(0, 1, size=(20, 257))
    transformer = CyclicBispectrum(coefficients="selective", normalize=False).fit(batch)
    recovered = transformer.invert(transformer.transform(batch))
    errors = [np.abs(shifts(s) - r).max(axis=1).min() for s, r in zip(batch, recovered, strict=True)]
    assert max(errors) < 1e-3


@pytest.mark.parametrize(
    ("signal", "frequency"),
    [
        ([1.0, -1.0, 3.0, -3.0], 0),
        ([2.0, 1.0, 2.0, 1.0], 1),
        ([1.0, 2.0, 3.0, 2.0], 2),
        (1 + np.cos(2 * np.pi * np.arange(9) / 9), 2),
        ([0.0, 0.0, 0.0], 0),
    ],
)
@pytest.mark.filterwarnings("ignore::bispectral_ot.errors.DataWarning")
def test_a_vanishing_coefficient_is_refused(signal: list[float], frequency: int) -> None:
    batch = np.array([np.arange(len(signal)) ** 2 + 1.0, signal])
    transformer = CyclicBispectrum(coefficients="selective", normalize=False).fit(batch)
    with pytest.raises(InputError, match=f"signal 1 .* frequency {frequency}"):
        transformer.invert(transformer.transform(batch))


def test_invert_needs_selective_features_of_the_right_shape() -> None:
    batch = np.arange(10.0).reshape(2, 5) ** 2
    full = CyclicBispectrum().fit(batch)
    with pytest.raises(InputError, match="selective"):
        full.invert(full.transform(batch))
    selective = CyclicBispectrum(coefficients="selective").fit(batch)
    for wrong in (np.ones((2, 3)), np.ones(6), np.full((2, selective.n_features_out_), np.nan)):
        with pytest.raises(InputError, match="expected finite features of shape"):
            selective.invert(wrong)


def test_scales_beyond_float32_are_said_or_normalized_away() -> None:
    signal = np.array([[1.0, 5.0, 2.0, 0.5]])
    expected = CyclicBispectrum().fit_transform(signal)
    for scale in (1e20, 1e-20, 1e200):
        with pytest.raises(InputError, match="range of float32"):
            CyclicBispectrum(normalize=False).fit_transform(signal * scale)
        np.testing.assert_allclose(CyclicBispectrum().fit_transform(signal * scale), expected, rtol=1e-6)


@pytest.mark.parametrize("normalize", [False, True])
def test_zero_signal(normalize: bool) -> None:
    with pytest.warns(DataWarning, match="1 of 2"):
        features = CyclicBispectrum(normalize=normalize).fit_transform([[0.0, 0, 0], [1, 2, 3]])
    assert not features[0].any()
    assert features[1].any()


def test_only_rows_and_known_coefficients() -> None:
    with pytest.raises(InputError, match="dim 3"):
        CyclicBispectrum().fit(np.ones((2, 3, 3)))
    with pytest.raises(InputError, match="choose one of full, selective"):
        CyclicBispectrum(coefficients="some").fit(np.ones((2, 3)))
