"""Relaxed marginals and totals of groups: against POT, in their limits, and what they measure."""

import warnings

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bispectral_ot.costs import Cost
from bispectral_ot.errors import InputError
from bispectral_ot.transport import Sinkhorn
from transport_problems import problem, scaled, weights


def kl(x, w):
    return float((x * np.log(x / w) - x + w).sum())


def by_pot(cost, reg, lam, p, q):
    penalties = tuple(np.inf if each is None else each for each in lam)
    options = {"reg_type": "kl", "numItermax": 200_000, "stopThr": 1e-14}
    with warnings.catch_warnings(action="ignore"):
        return ot.unbalanced.sinkhorn_unbalanced(p, q, scaled(cost), reg, penalties, **options)


@pytest.mark.parametrize(
    ("n", "m", "reg", "lam"),
    [
        (300, 200, 0.05, (0.5, 0.5)),
        (60, 45, 0.05, (10.0, 10.0)),
        (80, 70, 0.01, (0.1, 0.03)),
        (80, 70, 0.01, (None, 0.05)),
        (80, 70, 0.02, (0.3, None)),
    ],
)
def test_the_relaxed_plan_is_pots(n, m, reg, lam):
    cost, p, q = problem(n, m), weights(n, seed=1), weights(m, seed=2)
    if None not in lam:
        p = 1.3 * p
    coupling = Sinkhorn(reg=reg, tol=1e-9, unbalanced=lam).solve(cost, p, q)
    assert np.abs(coupling.to_dense() - by_pot(cost, reg, lam, p, q)).sum() <= 1e-6


@pytest.mark.parametrize("lam", [1e5, (None, 1e5)])
def test_a_large_penalty_gives_the_balanced_plan(lam):
    cost, p, q = problem(50, 40), weights(50, seed=1, zeros=3), weights(40, seed=2, zeros=2)
    balanced = Sinkhorn(reg=0.02, tol=1e-8).solve(cost, p, q)
    relaxed = Sinkhorn(reg=0.02, tol=1e-8, unbalanced=lam).solve(cost, p, q)
    assert np.abs(relaxed.to_dense() - balanced.to_dense()).sum() <= 1e-4
    assert relaxed.iterations <= 2 * balanced.iterations


@settings(max_examples=20, deadline=None)
@given(
    reg=st.sampled_from([0.3, 0.03, 0.004]), lam=st.floats(0.01, 30), mass=st.floats(0.1, 10), seed=st.integers(0, 50)
)
def test_the_residual_is_that_of_the_plan_whose_duality_gap_is_small(reg, lam, mass, seed):
    cost, p, q = problem(20, 15, seed=seed), mass * weights(20, seed=seed), weights(15, seed=seed + 1)
    coupling = Sinkhorn(reg=reg, tol=1e-7, unbalanced=lam).solve(cost, p, q)
    plan, eps = coupling.to_dense(), reg * cost.scale
    primal = (plan * cost.block(0, 20)).sum() + eps * kl(plan, np.outer(p, q))
    primal += lam * cost.scale * (kl(plan.sum(axis=1), p) + kl(plan.sum(axis=0), q))
    u, v = coupling.source_potential - eps * np.log(p), coupling.target_potential - eps * np.log(q)
    lam *= cost.scale
    dual = -lam * (p @ np.expm1(-u / lam) + q @ np.expm1(-v / lam)) - eps * (plan.sum() - p.sum() * q.sum())
    assert 0 <= primal - dual + 1e-9 * max(1, mass) <= 1e-4 * max(1, mass)
    # a half-step takes the sums x to w (x exp(-u / eps) / w) ** (eps / (lam + eps))
    error = 0.0
    for w, each, axis in ((p, u, 1), (q, v, 0)):
        x = plan.sum(axis=axis)
        error += np.abs(x - w * np.exp((np.log(x / w) - each / eps) * eps / (lam + eps))).sum() / plan.sum()
    assert coupling.marginal_error == pytest.approx(error, abs=1e-10)
    assert coupling.converged
    assert coupling.mass == pytest.approx(plan.sum())


def test_large_penalties_need_few_passes():
    cost, p, q = problem(300, 300), weights(300, seed=1), 2 * weights(300, seed=2)
    passes = [Sinkhorn(reg=0.05, tol=1e-6, unbalanced=lam).solve(cost, p, q).iterations for lam in (1.0, 100.0, 1e4)]
    assert max(passes) <= 40  # plain steps: more than lam / reg
    groups = np.arange(300) % 5, np.full(5, 1e4)
    held = Sinkhorn(reg=0.05, tol=1e-6, unbalanced=(None, 0.1)).solve(cost, p, q / 2, target_groups=groups)
    assert held.iterations <= 15  # without the best constant of the potentials: 37


@pytest.mark.parametrize("lam", [None, (None, 0.02)])
def test_passes_over_the_active_entries_give_the_plan_of_all(lam, monkeypatch):
    cost, p, q = problem(400, 300), weights(400, seed=1, zeros=3), weights(300, seed=2)
    solver, gather, found = Sinkhorn(unbalanced=lam, tol=1e-5), Cost.active, []
    plan = solver.solve(cost, p, q).to_dense()
    monkeypatch.setattr("bispectral_ot.transport.iteration._LARGE", 0)
    monkeypatch.setattr("bispectral_ot.costs.cost._MOST_ACTIVE", 0.9)
    monkeypatch.setattr(Cost, "active", lambda *given, **unit: found.append(gather(*given, **unit)) or found[-1])
    assert np.abs(solver.solve(cost, p, q).checked().to_dense() - plan).sum() <= 1e-4
    assert found[0] is not None


@pytest.mark.parametrize("reg", [0.05, 0.002])
def test_totals_that_are_held_firmly_are_kept_while_their_members_are_free(reg):
    cost, q, labels, lam = problem(60, 50), weights(50, seed=2), np.arange(50) % 4, np.array([1e4, 1e4, 0.0, 1e4])
    solver = Sinkhorn(reg=reg, tol=1e-7, unbalanced=(None, 0.01))
    coupling = solver.solve(cost, None, q, target_groups=(labels, lam))
    found = coupling.to_dense().sum(axis=0)
    np.testing.assert_allclose(np.bincount(labels, found), np.bincount(labels, q), atol=1e-5)
    assert np.abs(found - q).sum() > 0.1


def test_groups_of_one_are_a_larger_penalty():
    cost, p, q = problem(40, 30), 1.5 * weights(40, seed=1), weights(30, seed=2)
    groups = np.arange(30), np.full(30, 0.5)
    grouped = Sinkhorn(reg=0.05, tol=1e-9, unbalanced=(0.2, 0.1)).solve(cost, p, q, target_groups=groups)
    plain = Sinkhorn(reg=0.05, tol=1e-9, unbalanced=(0.2, 0.6)).solve(cost, p, q)
    np.testing.assert_allclose(grouped.to_dense(), plain.to_dense(), atol=1e-8)
    assert grouped.converged


def test_penalties_weights_and_groups_are_checked():
    for lam in (0, np.nan, np.inf, "much", (0.1, -1), (1, 2, 3)):
        with pytest.raises(InputError, match="unbalanced"):
            Sinkhorn(unbalanced=lam)
    cost = problem(4, 3)
    with pytest.raises(InputError, match="sum to one"):
        Sinkhorn().solve(cost, [2, 2, 2, 2])
    with pytest.raises(InputError, match="all 0"):
        Sinkhorn(unbalanced=1.0).solve(cost, np.zeros(4))
    assert Sinkhorn(unbalanced=1.0).solve(cost, [2, 2, 2, 2]).converged
    for solver, size in ((Sinkhorn(), 3), (Sinkhorn(unbalanced=1.0), 5)):
        with pytest.raises(InputError, match=f"relaxed target side, a label .* for each of the {size} targets"):
            solver.solve(problem(4, size), target_groups=(np.array([0, 1, 1]), np.ones(2)))
    for labels in ([0, 1, 2], [-1, 0, 1]):  # groups that have no penalty
        with pytest.raises(InputError, match="label 0, 1"):
            Sinkhorn(unbalanced=(None, 1.0)).solve(problem(4, 3), target_groups=(np.array(labels), np.ones(2)))
