"""Greenkhorn, through POT."""

import numpy as np
import pytest

from bispectral_ot.transport import Sinkhorn
from studies.greenkhorn import Greenkhorn
from transport_problems import problem, weights


@pytest.mark.parametrize("uniform", [True, False])
def test_greenkhorn_finds_sinkhorns_plan(uniform):
    cost, reg = problem(), 0.1
    p, q = (None, None) if uniform else (weights(60, seed=5), weights(45, seed=6))
    greedy, expected = Greenkhorn(reg=reg, tol=1e-7).solve(cost, p, q), Sinkhorn(reg=reg, tol=1e-8).solve(cost, p, q)
    assert np.abs(greedy.to_dense() - expected.to_dense()).sum() <= 1e-5
    assert greedy.transport_cost == pytest.approx(expected.transport_cost, rel=1e-5)
    assert greedy.entropy == pytest.approx(expected.entropy, rel=1e-5)
    assert 0 < greedy.iterations < 1_000_000
