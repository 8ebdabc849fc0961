from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import pairwise_distances as sklearn_distances

import bispectral_ot as bot
from bispectral_ot.datasets import Dataset
from bispectral_ot.report.embedding import embed, lay_out, scale_classically, scale_to_plane
from bispectral_ot.report.sampled_distances import sample_distances


def test_aligned_images_lie_as_near_as_the_match_found_them() -> None:
    digits = bot.load("digits")
    source = Dataset(digits.images[:12], digits.labels[:12], name="upright", classes=digits.classes)  # type: ignore[index]
    quarter = Dataset(np.rot90(source.images, axes=(1, 2)), source.labels, name="turned", classes=digits.classes)
    sample = sample_distances(bot.match(source, quarter, features="aligned"), source, quarter)
    assert sample is not None
    upright, turned = np.empty((12, 2)), np.empty((12, 2))
    upright[sample.source_rows], turned[sample.target_rows] = np.split(embed(sample).positions, [12])
    between = np.linalg.norm(upright[:, None] - turned[None], axis=2)
    assert np.diag(between).max() < 0.05 * between.mean()


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
