"""The 2-D bispectrum: literal formula, folding, exact invariance under cyclic shifts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bispectral_ot.features import TranslationBispectrum
from oracles import METRICS, distance, translation_bispectrum


@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 3), st.integers(0, 10**6))
def test_literal_formula_and_folded_distances(height: int, width: int, band_limit: int, seed: int) -> None:
    pair = np.random.default_rng(seed).uniform(0, 1, size=(2, height, width))
    transformer = TranslationBispectrum(band_limit=band_limit).fit(pair)
    x, y = transformer.transform(pair)
    full = [translation_bispectrum(image, band_limit=band_limit) for image in pair]
    for features, entries in ((x, full[0]), (y, full[1])):
        for value, column in zip(features, transformer.index_map_.tolist(), strict=True):
            expected = entries[column[1:5]]
            assert value == pytest.approx((expected.real, expected.imag)[column[5]], abs=1e-6)
    u, v = (np.array([part for value in f.values() for part in (value.real, value.imag)]) for f in full)
    for metric in METRICS:
        expected = pytest.approx(distance(u, v, metric), rel=1e-4, abs=1e-6)
        assert distance(x, y, metric, transformer.feature_weights_) == expected


@settings(max_examples=30)
@given(st.integers(0, 27), st.integers(0, 30), st.sampled_from([(), (3,)]))
def test_invariant_to_cyclic_shifts(down: int, right: int, channels: tuple[int, ...]) -> None:
    image = np.random.default_rng(0).uniform(0, 1, size=(28, 31, *channels))
    moved = np.roll(image, (down, right), axis=(0, 1))
    x, y = TranslationBispectrum().fit_transform([image, moved])
    assert np.abs(x - y).max() <= 1e-6
