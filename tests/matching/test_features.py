"""Further images are seen as the match saw its own."""

from __future__ import annotations

import numpy as np
import pytest

import bispectral_ot as bot


@pytest.mark.parametrize("pca", [None, 5])
@pytest.mark.parametrize("metric", ["l1", "l2"])
def test_distances_of_the_feature_map_are_those_of_the_match(pca: int | None, metric: str) -> None:
    images = np.random.default_rng(0).random((2, 9, 10, 10), dtype=np.float32)
    match = bot.match(*images, metric=metric, pca=pca, features=bot.RingPowerSpectrum())
    assert match.feature_map is not None
    xa, xb = (match.feature_map(side) for side in images)
    cost = bot.Cost(xa, xb, metric, weights=match.feature_map.metric_weights)
    expected = match.coupling.cost.block(0, 9)
    np.testing.assert_allclose(cost.block(0, 9), expected, rtol=1e-4, atol=1e-5 * expected.max())


def test_memory_is_told_for_every_timed_stage() -> None:
    images = np.random.default_rng(0).random((2, 4, 8, 8), dtype=np.float32)
    match = bot.match(*images, symmetry="none")
    assert match.memory.keys() == match.seconds.keys()
    assert min(match.memory.values()) > 0
