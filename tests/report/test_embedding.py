from __future__ import annotations

import numpy as np
import pytest

from bispectral_ot.report.embedding import lay_out


def test_scaling_finds_a_plane_again() -> None:
    points = np.random.default_rng(0).normal(size=(40, 2))
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    positions, method = lay_out(distances)
    found = np.linalg.norm(positions[:, None] - positions[None], axis=2)
    np.testing.assert_allclose(found / found.max(), distances / distances.max(), atol=1e-3)
    assert "SMACOF" in method
    assert np.abs(positions).max() <= 1.0 + 1e-12


def test_neighbour_embedding_keeps_far_groups_apart() -> None:
    random = np.random.default_rng(0)
    points = np.concatenate([random.normal(size=(160, 5)), 40 + random.normal(size=(160, 5))])
    positions, method = lay_out(np.linalg.norm(points[:, None] - points[None], axis=2))
    assert "t-SNE" in method
    centres = positions[:160].mean(axis=0), positions[160:].mean(axis=0)
    own = np.linalg.norm(positions[:160] - centres[0], axis=1)
    other = np.linalg.norm(positions[:160] - centres[1], axis=1)
    assert (own < other).all()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_points_have_places(count: int) -> None:
    positions, _ = lay_out(1.0 - np.eye(count))
    assert positions.shape == (count, 2)
    assert np.isfinite(positions).all()
