"""What is read off a plan in one pass, against NumPy on the whole plan."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from bispectral_ot import runtime
from bispectral_ot.costs import STORAGES, Cost
from bispectral_ot.errors import InputError
from bispectral_ot.transport import ExactTransport, Sinkhorn, SparseCoupling
from transport_problems import marginal_error, problem, weights


def entropic(storage="float32"):
    return Sinkhorn(reg=0.02, tol=1e-3).solve(
        problem(storage=storage), weights(60, seed=1), weights(45, seed=2, zeros=3)
    )


def exact():
    return ExactTransport().solve(problem(), weights(60, seed=1), weights(45, seed=2, zeros=3))


@pytest.fixture(scope="module", params=[*STORAGES, "sparse"])
def coupling(request):
    return exact() if request.param == "sparse" else entropic(request.param)


def test_rows_are_those_of_the_whole_plan(coupling):
    plan = coupling.to_dense()
    assert plan.shape == coupling.shape == (60, 45)
    assert plan.dtype == np.float64
    for start, stop in ((0, 1), (13, 40), (59, 60), (7, 7)):
        # recomputed costs round in another way in other blocks, and 1e-7 of the cost is 1e-5 of the plan
        np.testing.assert_allclose(coupling.rows(start, stop), plan[start:stop], rtol=2e-5, atol=1e-15)


def test_sums_are_those_of_the_plan(coupling):
    plan, summary = coupling.to_dense(), coupling.summary()
    cost = coupling.cost.block(0, 60).astype(np.float64)
    error = marginal_error(plan, coupling.source_weights, coupling.target_weights)
    assert summary.transport_cost == pytest.approx((plan * cost).sum(), rel=1e-6)
    assert coupling.marginal_error == pytest.approx(error, rel=1e-6, abs=1e-14)
    positive = plan[plan > 0]
    assert coupling.entropy == pytest.approx(-(positive * np.log(positive)).sum(), rel=1e-4)
    assert coupling.transport_cost == pytest.approx(summary.transport_cost, rel=1e-12)
    np.testing.assert_allclose(summary.row_costs, (plan * cost).sum(axis=1), rtol=2e-5, atol=1e-15)
    assert coupling.converged == (coupling.marginal_error <= coupling.tol)


@pytest.mark.parametrize("k", [0, 7, 100])
def test_the_best_targets_are_those_of_the_plan(coupling, k):
    plan, summary = coupling.to_dense(), coupling.summary(k=k)
    kept = min(k, 45)
    assert summary.top_indices.shape == summary.top_masses.shape == (60, kept)
    expected = -np.sort(-plan, axis=1)[:, :kept]
    np.testing.assert_allclose(summary.top_masses, expected, rtol=2e-5, atol=1e-15)
    np.testing.assert_allclose(
        np.take_along_axis(plan, summary.top_indices, axis=1), summary.top_masses, rtol=2e-5, atol=1e-15
    )
    assert all(len(set(row)) == kept for row in summary.top_indices.tolist())
    cost = coupling.cost.block(0, 60)
    rounding = {"rtol": 1e-6, "atol": 1e-6 * coupling.cost.maximum}  # recomputed blocks, 16 bits decoded in float32
    np.testing.assert_allclose(summary.top_costs, np.take_along_axis(cost, summary.top_indices, axis=1), **rounding)
    nearest = cost.min(axis=1) if k else np.zeros(60)
    np.testing.assert_allclose(summary.nearest_costs, nearest, **rounding)
    if k:
        np.testing.assert_allclose(cost[np.arange(60), summary.nearest], nearest, **rounding)


@pytest.mark.parametrize("unlabelled", [True])
def test_class_masses_are_those_of_the_plan(coupling, unlabelled):
    generator = np.random.default_rng(3)
    low = -1 if unlabelled else 0
    sources, targets = generator.integers(low, 4, 60), generator.integers(low, 6, 45)
    sources[0], targets[0] = 3, 5
    plan = coupling.to_dense()
    summary = coupling.summary(k=2, source_labels=sources, target_labels=targets)
    by_target = np.stack([plan[:, targets == c].sum(axis=1) for c in range(6)], axis=1)
    by_source = np.stack([plan[sources == c].sum(axis=0) for c in range(4)])
    np.testing.assert_allclose(summary.source_class_mass, by_target, rtol=2e-5, atol=1e-14)
    np.testing.assert_allclose(summary.target_class_mass, by_source, rtol=2e-5, atol=1e-14)


def test_couplings_are_frozen(coupling):
    with pytest.raises(dataclasses.FrozenInstanceError):
        coupling.tol = 1.0
    assert not dataclasses.replace(coupling, tol=1e-300).converged or coupling.marginal_error == 0


def test_without_labels_there_are_no_class_masses(coupling):
    summary = coupling.summary(k=1)
    assert summary.source_class_mass.shape == (60, 0)
    assert summary.target_class_mass.shape == (0, 45)
    one_side = coupling.summary(k=1, target_labels=np.zeros(45, int))
    assert one_side.target_class_mass.shape == (0, 45)
    np.testing.assert_allclose(one_side.source_class_mass[:, 0], coupling.to_dense().sum(axis=1), rtol=1e-6)


def test_progress_ends_at_the_number_of_rows(coupling):
    calls = []
    with runtime.running(progress=lambda *call: calls.append(call)):
        coupling.summary()
    assert calls[-1] == ("summary", 60, 60)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"k": -1}, "at least 0"),
        ({"source_labels": np.zeros(45, int)}, "source_labels"),
        ({"target_labels": np.zeros(60, int)}, "target_labels"),
        ({"target_labels": np.zeros((45, 1), int)}, "target_labels"),
        ({"target_labels": np.full(45, 0.5)}, "class numbers"),
        ({"target_labels": np.full(45, -2)}, "class numbers"),
        ({"target_labels": np.array(["a"] * 45)}, "class numbers"),
    ],
)
def test_bad_questions_are_refused(coupling, options, words):
    with pytest.raises(InputError, match=words):
        coupling.summary(**options)


@settings(max_examples=50)
@given(data=st.data())
def test_any_sparse_plan_is_read_right(data):
    n, m = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 12))
    entries = data.draw(st.lists(st.integers(0, 4), min_size=n * m, max_size=n * m).filter(any))
    plan = np.array(entries, float).reshape(n, m)
    plan /= plan.sum()
    labels = np.array(data.draw(st.lists(st.integers(-1, 3), min_size=m, max_size=m)))
    p, q = plan.sum(axis=1), plan.sum(axis=0)
    matrix = np.arange(n * m, dtype=float).reshape(n, m)
    coupling = SparseCoupling(
        cost=Cost.from_matrix(matrix), source_weights=p, target_weights=q, tol=1e-9, plan=csr_array(plan)
    )
    k = data.draw(st.integers(1, 14))
    summary = coupling.summary(k=k, target_labels=labels)
    assert coupling.converged
    assert coupling.transport_cost == pytest.approx((plan * matrix).sum(), rel=1e-6)
    np.testing.assert_allclose(summary.top_masses, -np.sort(-plan, axis=1)[:, :k], atol=1e-15)
    # of equal masses the first comes first
    np.testing.assert_array_equal(summary.top_indices, np.argsort(-plan, axis=1, kind="stable")[:, :k])
    np.testing.assert_array_equal(summary.top_costs, np.take_along_axis(matrix, summary.top_indices, axis=1))
    np.testing.assert_array_equal(summary.nearest, np.zeros(n))
    np.testing.assert_array_equal(summary.nearest_costs, matrix[:, 0])
    if labels.max() >= 0:
        expected = np.stack([plan[:, labels == c].sum(axis=1) for c in range(labels.max() + 1)], axis=1)
        np.testing.assert_allclose(summary.source_class_mass, expected, atol=1e-15)
