"""Summaries of a plan in one pass, against NumPy on the whole plan."""

import dataclasses

import numpy as np
import pytest

from bispectral_ot.errors import InputError
from bispectral_ot.transport import ExactTransport, Sinkhorn
from transport_problems import marginal_error, problem, weights


@pytest.fixture(scope="module", params=["compact", "recompute", "sparse"])
def coupling(request):
    sides = weights(60, seed=1), weights(45, seed=2, zeros=3)
    if request.param == "sparse":
        return ExactTransport().solve(problem(), *sides)
    return Sinkhorn(reg=0.02, tol=1e-3).solve(problem(storage=request.param), *sides)


def test_rows_and_measures_are_those_of_the_whole_plan(coupling):
    plan, cost = coupling.to_dense(), coupling.cost.block(0, 60, dtype=np.float64)
    assert plan.shape == coupling.shape == (60, 45)
    for start, stop in ((0, 1), (13, 40), (59, 60), (7, 7)):
        # recomputed costs round in another way in other blocks, and 1e-7 of the cost is 1e-5 of the plan
        np.testing.assert_allclose(coupling.rows(start, stop), plan[start:stop], rtol=2e-5, atol=1e-15)
    if not coupling.iterations:
        assert coupling.plan.nnz < 60 + 45
    else:
        f, g = coupling.source_potential, coupling.target_potential
        np.testing.assert_allclose(plan, np.exp((f[:, None] + g - cost) / coupling.epsilon), rtol=2e-5, atol=1e-200)
        assert np.isneginf(g[coupling.target_weights == 0]).all()
    error = marginal_error(plan, coupling.source_weights, coupling.target_weights)
    assert coupling.marginal_error == pytest.approx(error, rel=1e-5, abs=1e-14)
    assert coupling.transport_cost == pytest.approx((plan * cost).sum(), rel=1e-6)
    positive = plan[plan > 0]
    assert coupling.entropy == pytest.approx(-(positive * np.log(positive)).sum(), rel=1e-4)
    assert coupling.mass == pytest.approx(plan.sum())
    assert coupling.converged == (coupling.marginal_error <= coupling.tol)
    with pytest.raises(dataclasses.FrozenInstanceError):
        coupling.tol = 1.0


def test_summaries_of_sparse_plans_are_those_of_the_passes(coupling):
    """Passes over a cost have literal oracles of their own; see tests/costs/test_passes.py."""
    generator = np.random.default_rng(3)
    sources, targets = generator.integers(-1, 4, 60), generator.integers(-1, 6, 45)
    plan, cost = coupling.to_dense(), coupling.cost.block(0, 60)
    for k in (0, 7, 100):
        found = coupling.summary(k=k, source_labels=sources, target_labels=targets)
        assert found.top_indices.shape == (60, min(k, 45))
        np.testing.assert_allclose(found.top_masses, -np.sort(-plan, axis=1)[:, :k], rtol=2e-5, atol=1e-14)
        by_target = np.stack([plan[:, targets == c].sum(axis=1) for c in range(6)], axis=1)
        by_source = np.stack([plan[sources == c].sum(axis=0) for c in range(4)])
        np.testing.assert_allclose(found.source_class_mass, by_target, rtol=2e-5, atol=1e-14)
        np.testing.assert_allclose(found.target_class_mass, by_source, rtol=2e-5, atol=1e-14)
        nearest = cost.min(axis=1) if k else np.zeros(60)
        np.testing.assert_allclose(found.nearest_costs, nearest, atol=1e-6 * coupling.cost.maximum)


def test_bad_questions_are_refused(coupling):
    with pytest.raises(InputError, match="at least 0"):
        coupling.summary(k=-1)
    for name, labels in (("source_labels", np.zeros(45, int)), ("target_labels", np.full(45, -2))):
        with pytest.raises(InputError, match=f"{name} must be .* class numbers"):
            coupling.summary(**{name: labels})
