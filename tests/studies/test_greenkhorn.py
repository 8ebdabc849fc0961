"""Greenkhorn, through POT."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from bispectral_ot.costs import Cost
from bispectral_ot.errors import InputError, NotConvergedWarning
from bispectral_ot.transport import Sinkhorn
from studies.greenkhorn import Greenkhorn
from transport_problems import problem, scaled, weights


@pytest.mark.parametrize("uniform", [True, False])
def test_greenkhorn_finds_sinkhorns_plan(uniform):
    cost, reg = problem(), 0.1
    p, q = (None, None) if uniform else (weights(60, seed=5), weights(45, seed=6))
    greedy = Greenkhorn(reg=reg, tol=1e-7).solve(cost, p, q)
    expected = Sinkhorn(reg=reg, tol=1e-8).solve(cost, p, q)
    assert np.abs(greedy.to_dense() - expected.to_dense()).sum() <= 1e-5
    assert greedy.transport_cost == pytest.approx(expected.transport_cost, rel=1e-5)
    assert greedy.entropy == pytest.approx(expected.entropy, rel=1e-5)
    assert 0 < greedy.iterations < 1_000_000


def test_greenkhorn_that_underflows_is_not_converged_and_has_no_nan():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.warns(NotConvergedWarning):
            coupling = Greenkhorn(reg=1e-4, max_iter=20_000).solve(problem())
    assert not coupling.converged
    assert np.isfinite(coupling.to_dense()).all()
    assert np.isfinite([coupling.marginal_error, coupling.transport_cost]).all()


def test_greenkhorn_needs_every_weight_to_be_positive():
    with pytest.raises(InputError, match="positive"):
        Greenkhorn().solve(problem(), weights(60, seed=7, zeros=1))


def test_greenkhorn_potentials_are_in_the_units_of_the_cost():
    cost = Cost.from_matrix(1000 * scaled(problem()), scale=1500)
    coupling = Greenkhorn(reg=0.05).solve(cost)
    f, g = coupling.source_potential, coupling.target_potential
    expected = np.exp((f[:, None] + g - cost.block(0, 60)) / 75)
    np.testing.assert_allclose(coupling.to_dense(), expected, rtol=1e-9)
    assert coupling.epsilon == 75
