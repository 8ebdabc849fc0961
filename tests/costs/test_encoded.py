"""Rows as they are kept: 16 bits within half a step, float64 shifted and scaled without a loss that counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bispectral_ot.costs.encoded import plain, quantized, shifted


def matrices(dtype, largest):
    width = 8 * np.dtype(dtype).itemsize
    return arrays(
        dtype,
        st.tuples(st.integers(1, 4), st.integers(1, 40)),
        elements=st.floats(0, largest, width=width, allow_subnormal=False),
    )


@settings(max_examples=200)
@given(matrices(np.float32, 2.0**100))
def test_codes_of_16_bits_are_within_half_a_step(rows):
    codes, offsets, steps = quantized(rows)
    assert codes.dtype == np.uint16
    decoded = offsets[:, None] + steps[:, None] * codes
    slack = 1e-9 * np.abs(rows).max()
    assert (np.abs(decoded - rows) <= steps[:, None] / 2 + slack).all()
    assert (steps >= 0).all()


@settings(max_examples=200)
@given(matrices(np.float64, 1.7e308))
def test_shifted_rows_lie_between_0_and_1_and_keep_their_digits(rows):
    encoded = shifted(rows)
    assert encoded.codes.min() >= 0
    assert encoded.codes.max() <= 1
    assert (encoded.codes.min(axis=1) == 0).all()
    # two roundings of the code, two of what is decoded
    np.testing.assert_allclose(encoded.decoded() / 2, rows / 2, rtol=1e-15, atol=2.5e-16 * rows.max() / 2)


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e8])
@pytest.mark.parametrize("unit", [1e-290, 1e-46, 1.0, 1e38, 1e290])
def test_codes_tell_neighbouring_numbers_apart_even_in_float32(offset, unit):
    """However large or small the numbers are themselves."""
    codes = shifted(unit * (offset + np.array([[0.0, 1.0, 3.0, 10.0]]))).codes.astype(np.float32)
    np.testing.assert_allclose(codes, [[0, 0.1, 0.3, 1]], rtol=1e-6)


def test_parts_are_rows_of_the_whole_and_nothing_decoded_is_a_view():
    rows = np.random.default_rng(0).uniform(1, 2, (9, 5)).astype(np.float32)
    for encoded in (plain(rows), quantized(rows), shifted(rows.astype(np.float64))):
        whole = encoded.decoded()
        np.testing.assert_array_equal(encoded.part(2, 7).decoded(), whole[2:7])
        before = whole.copy()
        whole *= 2
        np.testing.assert_array_equal(encoded.decoded(), before)
    assert quantized(rows).decoded().dtype == np.float32
    assert shifted(rows.astype(np.float64)).decoded().dtype == np.float64
