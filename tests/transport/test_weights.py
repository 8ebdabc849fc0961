"""Weights of the two sides."""

from __future__ import annotations

import numpy as np
import pytest

from bispectral_ot.errors import InputError
from bispectral_ot.transport import ExactTransport, Sinkhorn
from bispectral_ot.transport.weights import as_weights
from transport_problems import problem, weights


def test_weights_are_uniform_where_none_are_given():
    np.testing.assert_array_equal(as_weights(None, 4, "source_weights"), [0.25] * 4)


@pytest.mark.parametrize("kind", [list, tuple, np.float32, np.float64])
def test_weights_of_any_kind_sum_to_one_in_double_precision(kind):
    given = weights(1000, seed=1)
    read = as_weights(
        given.astype(kind) if isinstance(kind, type) and kind in (np.float32, np.float64) else kind(given), 1000, "w"
    )
    assert read.dtype == np.float64
    assert abs(read.sum() - 1) < 1e-14
    np.testing.assert_allclose(read, given, rtol=1e-6)


def test_the_given_array_is_left_alone():
    given = np.array([0.5, 0.5 + 1e-9])
    as_weights(given, 2, "w")
    assert given[1] == 0.5 + 1e-9


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([0.5, 0.5], r"has shape \(2,\) but there are 3"),
        ([[0.2, 0.3, 0.5]], "shape"),
        ([0.6, 0.6, -0.2], "entry 2 is -0.2"),
        ([0.5, np.nan, 0.5], "NaN or infinite entry at 1"),
        ([0.5, np.inf, 0.5], "NaN or infinite entry at 1"),
        ([1.0, 1.0, 1.0], "sums to 3; divide"),
        ([0.3, 0.3, 0.3], "sums to 0.9"),
        ([0.0, 0.0, 0.0], "sums to 0"),
        ([1, 0, 1], "sums to 2"),
        (["a", "b", "c"], "numbers"),
    ],
)
def test_weights_that_are_none_are_refused_by_name(given, words):
    with pytest.raises(InputError, match=words) as raised:
        as_weights(given, 3, "source_weights")
    assert "source_weights" in str(raised.value)


@pytest.mark.parametrize("solver", [Sinkhorn(), ExactTransport()])
def test_every_solver_checks_its_weights(solver):
    with pytest.raises(InputError, match="source_weights"):
        solver.solve(problem(), np.ones(60))
    with pytest.raises(InputError, match="target_weights"):
        solver.solve(problem(), None, -np.ones(45))
