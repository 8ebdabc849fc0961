"""The written-out exponential of the compiled passes, over its whole range."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from bispectral_ot.costs.pass_kernels import exp2


@njit
def exp2_of_all(x, out):
    for i in range(x.shape[0]):
        out[i] = exp2(x[i])


def evaluate(x):
    out = np.empty_like(x)
    exp2_of_all(x, out)
    return out


@pytest.mark.parametrize(
    ("dtype", "lowest", "highest", "accuracy"),
    [(np.float32, -125.0, 126.0, 3e-7), (np.float64, -1021.0, 1022.0, 2e-15)],
)
def test_it_is_accurate_from_the_smallest_normal_number_to_the_largest(dtype, lowest, highest, accuracy):
    generator = np.random.default_rng(0)
    x = np.concatenate(
        [
            generator.uniform(lowest, highest, 200_000),
            generator.uniform(-1, 1, 50_000),
            np.arange(lowest, highest + 1),  # integers, and the halves where rounding changes its mind
            np.arange(lowest, highest) + 0.5,
            np.nextafter(np.arange(lowest, highest) + 0.5, 1e9),
        ]
    ).astype(dtype)
    exact = np.exp2(x.astype(np.longdouble))
    relative = np.abs(evaluate(x) - exact) / exact
    assert relative.max() <= accuracy


@pytest.mark.parametrize(("dtype", "lowest"), [(np.float32, -125.0), (np.float64, -1021.0)])
def test_what_is_smaller_stays_a_normal_number(dtype, lowest):
    """Denormal numbers are slow, and -1e30 stands for elements without mass."""
    smallest = evaluate(np.array([lowest - 0.5, lowest - 1, 10 * lowest, -1e30], dtype=dtype))
    np.testing.assert_allclose(smallest, 2.0**lowest, rtol=3e-7)
    assert smallest.min() >= np.finfo(dtype).tiny


@pytest.mark.parametrize(("dtype", "highest"), [(np.float32, 126.0), (np.float64, 1022.0)])
def test_what_is_larger_stays_large(dtype, highest):
    """An exponent that ran into the sign bit would look like any other number."""
    x = np.array([highest + 1, highest + 2, 2 * highest, 4 * highest + 8, 300, 512, 2048, 1e5, 1e30], dtype=dtype)
    x = x[x > highest]
    np.testing.assert_allclose(evaluate(x), 2.0**highest, rtol=3e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_does_not_fall(dtype):
    x = np.sort(np.random.default_rng(1).uniform(-30, 30, 100_000)).astype(dtype)
    steps = np.diff(evaluate(x)) / evaluate(x)[1:]
    assert steps.min() >= -3 * np.finfo(dtype).eps
