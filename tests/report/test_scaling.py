from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import pairwise_distances as sklearn_distances

from bispectral_ot.report.scaling import scale_classically, scale_to_plane


def test_points_of_a_plane_are_found_again() -> None:
    points = np.random.default_rng(1).normal(size=(30, 2))
    distances = sklearn_distances(points)
    positions, stress = scale_to_plane(distances)
    assert stress < 1e-3
    np.testing.assert_allclose(sklearn_distances(positions), distances, atol=1e-2)


@pytest.mark.parametrize("scale", [scale_classically, lambda distances: scale_to_plane(distances)[0]])
def test_two_points_are_as_far_apart_as_they_should(scale) -> None:  # type: ignore[no-untyped-def]
    positions = scale(np.array([[0.0, 3.0], [3.0, 0.0]]))
    assert np.linalg.norm(positions[0] - positions[1]) == pytest.approx(3.0)


@pytest.mark.parametrize("count", [1, 2, 5, 250])
def test_points_without_distances_lie_on_one_place(count: int) -> None:
    positions, stress = scale_to_plane(np.zeros((count, count)))
    assert positions.shape == (count, 2)
    assert np.all(positions == 0.0)
    assert stress == 0.0
