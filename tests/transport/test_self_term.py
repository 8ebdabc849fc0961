"""Transport of a set to itself, against the literal iteration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from bispectral_ot import Cost, Sinkhorn
from bispectral_ot.errors import InputError
from transport_problems import points, weights


def literal_potential(cost, w, epsilon, tau):
    """``a = -tau epsilon log(sum_j w_j exp((a_j - C_ij) / epsilon))`` by averaged steps in float64."""
    a = np.zeros(len(w))
    for _ in range(2000):
        a = (a - tau * epsilon * logsumexp((a - cost) / epsilon, b=w, axis=1)) / 2
    return a


@pytest.mark.parametrize("reg", [0.2, 0.01])
@pytest.mark.parametrize(("lam", "zeros"), [(None, 0), (None, 5), (0.05, 5), (30.0, 0)])
def test_the_potential_is_that_of_the_literal_iteration(reg, lam, zeros):
    x, w = points(50), weights(50, zeros=zeros)
    cost = Cost(x, x, "sqeuclidean")
    coupling = Sinkhorn(reg=reg, tol=1e-9, unbalanced=lam).self_term(cost, w)
    tau = 1.0 if lam is None else lam / (lam + reg)
    expected = literal_potential(cost.block(0, 50).astype(np.float64), w, coupling.epsilon, tau)
    kept = w > 0
    found = coupling.target_potential[kept] - coupling.epsilon * np.log(w[kept])
    np.testing.assert_allclose(found, expected[kept], atol=1e-6 * cost.scale)
    np.testing.assert_array_equal(coupling.source_potential, coupling.target_potential)
    rough = Sinkhorn(reg=reg, tol=1e-2, unbalanced=lam).self_term(cost, w)
    np.testing.assert_array_equal(rough.source_potential, rough.target_potential)
    assert rough.converged
    assert coupling.converged
    assert np.isneginf(coupling.target_potential[~kept]).all()


def test_costs_that_are_no_self_term_are_refused():
    with pytest.raises(InputError, match="square"):
        Sinkhorn().self_term([[0.0, 1.0]])
    with pytest.raises(InputError, match="same penalty"):
        Sinkhorn(unbalanced=(None, 0.1)).self_term([[0.0]])
