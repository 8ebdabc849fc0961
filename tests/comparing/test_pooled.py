"""Divergences of many weightings on one kernel, against POT and against known answers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bispectral_ot.comparing.divergence import bootstrap_deviations, mean_embeddings, permutation_test, sampling_bias
from bispectral_ot.transport import BatchedSinkhorn


def squared(points):
    return ((points[:, None] - points) ** 2).sum(axis=2)


def literal_value(cost, p, q, epsilon):
    """``min <P, C> + epsilon KL(P | p x q)`` by plain steps in float64."""
    f, g = np.zeros(len(p)), np.zeros(len(q))
    for _ in range(5000):
        f = -epsilon * np.log((q * np.exp((g - cost) / epsilon)).sum(axis=1))
        g = -epsilon * np.log((p[:, None] * np.exp((f[:, None] - cost) / epsilon)).sum(axis=0))
    return p @ f + q @ g


def literal_divergence(cost, p, q, epsilon):
    between, first, second = (literal_value(cost, *pair, epsilon) for pair in ((p, q), (p, p), (q, q)))
    return between - first / 2 - second / 2


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
def test_divergences_are_those_of_the_literal_iteration(epsilon):
    random = np.random.default_rng(0)
    cost, weights = squared(random.normal(size=(12, 2))), random.dirichlet(np.ones(12), size=6).T
    found = BatchedSinkhorn(cost, epsilon=epsilon).divergences(weights[:, :3], weights[:, 3:])
    expected = [literal_divergence(cost, weights[:, k], weights[:, k + 3], epsilon) for k in range(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)


def test_sets_so_far_apart_that_float32_underflows():
    points = np.concatenate([np.linspace(0, 1, 10), 30 + np.linspace(0, 1, 10)])[:, None]
    source = np.repeat([0.1, 0.0], 10)[:, None]
    (found,) = BatchedSinkhorn(squared(points), epsilon=2.0).divergences(source, 0.1 - source)
    assert found == pytest.approx(900.0, rel=1e-6)  # equal shapes: the squared shift


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.2, 5.0))
def test_a_divergence_is_symmetric_not_negative_and_zero_for_equal_weights(seed, epsilon):
    random = np.random.default_rng(seed)
    kernel = BatchedSinkhorn(squared(random.normal(size=(9, 3))), epsilon=epsilon)
    p, q = random.dirichlet(np.ones(9), size=2)[:, :, None]
    forth, back = kernel.divergences(p, q)[0], kernel.divergences(q, p)[0]
    assert forth == pytest.approx(back, abs=1e-5 * epsilon)
    assert forth >= -1e-6 * epsilon
    assert kernel.divergences(p, p)[0] == 0.0


def test_mean_embeddings_are_those_of_their_definition():
    costs, difference = squared(np.random.default_rng(5).normal(size=(9, 2))), np.array([[0.25] * 4 + [-0.2] * 5]).T
    (found,) = mean_embeddings(costs, difference, [0.5])
    kernel = np.exp(-costs / (0.5 * np.median(costs[np.triu_indices(9, 1)])))
    expected = kernel[:4, :4].mean() + kernel[4:, 4:].mean() - 2 * kernel[:4, 4:].mean()
    assert found == pytest.approx([expected])


def test_false_alarms_are_as_frequent_as_the_level():
    random, p_values = np.random.default_rng(2), []
    for _ in range(100):
        costs = squared(random.normal(size=(40, 2)))
        p_values.append(permutation_test(costs, BatchedSinkhorn(costs, epsilon=1.0), (20, 20), 19, random))
    assert 0.0 < np.mean(np.array(p_values) <= 0.1) < 0.2
    assert 0.4 < np.mean(p_values) < 0.62


@pytest.mark.parametrize(("epsilon", "dimensions"), [(2.0, 2), (0.5, 5)])
def test_the_sampling_bias_foretells_what_other_sizes_are_at(epsilon, dimensions):
    random, expected, seen = np.random.default_rng(3), [], []
    for _ in range(60):
        kernel = BatchedSinkhorn(squared(random.normal(size=(160, dimensions))), epsilon=epsilon)
        law = sampling_bias(kernel, 160, random)
        expected.append(law.part(120) + law.part(30))
        pool = BatchedSinkhorn(squared(random.normal(size=(150, dimensions))), epsilon=epsilon)
        source, target = np.repeat([1 / 120, 0], [120, 30])[:, None], np.repeat([0, 1 / 30], [120, 30])[:, None]
        seen.append(pool.divergences(source, target)[0])
    assert np.mean(expected) == pytest.approx(np.mean(seen), rel=0.15)


def test_bootstrap_deviations_have_mean_zero_and_the_spread_of_repeated_samples():
    random = np.random.default_rng(4)

    def pool():
        points = np.concatenate([random.normal(size=(60, 1)), 2 + random.normal(size=(60, 1))])
        return BatchedSinkhorn(squared(points), epsilon=1.0)

    source, target = np.repeat([1 / 60, 0], 60)[:, None], np.repeat([0, 1 / 60], 60)[:, None]
    repeated = np.std([pool().divergences(source, target)[0] for _ in range(60)])
    moved = bootstrap_deviations(pool(), (60, 60), 200, random)
    assert moved.mean() == pytest.approx(0, abs=1e-12)
    assert 0.6 < moved.std() / repeated < 1.6
