"""Synthetic 3-D shapes: meshes of random proportions, and point clouds sampled from them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import check_integer
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.clouds import sample_surface
from bispectral_ot.errors import InputError

Points = NDArray[np.float64]
Mesh = tuple[Points, NDArray[np.int64]]

STEPS = 48  # segments of a full turn in a mesh


def synthetic_shapes(
    per_class: int, *, n_points: int = 1024, noise: float = 0.02, turned: bool = True, seed: int = 0
) -> Dataset:
    """Point clouds of simple solids' surfaces, as a dataset of kind ``"clouds"``.

    Each shape has its own random proportions; points are drawn evenly from its surface and moved by Gaussian noise.

    Parameters
    ----------
    per_class : int
        Shapes of each class in :data:`CLASSES`.
    n_points : int
        Points of a shape.
    noise : float
        Standard deviation of the noise, relative to the shape's root mean square radius.
    turned : bool
        Rotate each shape at random, uniformly on SO(3).
    seed : int
        The same seed gives the same shapes.

    Returns
    -------
    Dataset
        ``images`` of shape (n, n_points, 3), float32, and labels.

    Examples
    --------
    >>> from studies.synthetic_shapes import synthetic_shapes
    >>> synthetic_shapes(2, n_points=50).images.shape
    (22, 50, 3)
    """
    from scipy.spatial.transform import Rotation

    check_integer("per_class", per_class, minimum=1)
    check_integer("n_points", n_points, minimum=1)
    if not noise >= 0:
        raise InputError(f"noise must be at least 0, got {noise!r}.")
    rng = np.random.default_rng(seed)
    clouds = np.empty((len(CLASSES), per_class, n_points, 3), dtype=np.float32)
    for makes, clouds_of_class in zip(CLASSES.values(), clouds, strict=True):
        for cloud in clouds_of_class:
            points = sample_surface(*makes(rng), n_points, rng=rng)
            size = np.sqrt(np.mean(np.square(points - points.mean(axis=0)).sum(axis=1)))
            points = points + noise * size * rng.standard_normal(points.shape)
            cloud[:] = Rotation.random(rng=rng).apply(points) if turned else points
    labels = np.repeat(np.arange(len(CLASSES)), per_class)
    return Dataset(clouds.reshape(-1, n_points, 3), labels, name="shapes", classes=tuple(CLASSES), kind="clouds")


def _hull(corners: Points) -> Mesh:
    from scipy.spatial import ConvexHull

    return corners, ConvexHull(corners).simplices.astype(np.int64)


def _grid_mesh(points: Points) -> Mesh:
    """Triangles between neighbours in a grid of points (rows, columns, 3)."""
    rows, columns = points.shape[:2]
    number = np.arange(rows * columns).reshape(rows, columns)
    a, b, c, d = (part.ravel() for part in (number[:-1, :-1], number[:-1, 1:], number[1:, :-1], number[1:, 1:]))
    return points.reshape(-1, 3), np.concatenate([np.stack([a, b, c], axis=1), np.stack([b, d, c], axis=1)])


def _revolve(profile: Points) -> Mesh:
    """Surface of revolution of a profile (radius, height) around the z axis."""
    angle = np.linspace(0, 2 * np.pi, STEPS + 1)
    radius, height = profile.T[:, :, None]
    return _grid_mesh(np.stack(np.broadcast_arrays(radius * np.cos(angle), radius * np.sin(angle), height), axis=2))


def _arc(start: float, stop: float) -> Points:
    angle = np.linspace(start, stop, STEPS)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _box(rng: np.random.Generator) -> Mesh:
    signs = np.stack(np.meshgrid([-1, 1], [-1, 1], [-1, 1]), axis=-1).reshape(-1, 3)
    return _hull(signs * rng.uniform(0.5, 1.5, 3))


def _cylinder(rng: np.random.Generator) -> Mesh:
    height = rng.uniform(0.7, 2)
    return _revolve(np.array([[0, -height], [1, -height], [1, height], [0, height]]))


def _cone(rng: np.random.Generator) -> Mesh:
    height = rng.uniform(1, 3)
    return _revolve(np.array([[0, 0], [1, 0], [0, height]]))


def _torus(rng: np.random.Generator) -> Mesh:
    return _revolve(rng.uniform(0.2, 0.5) * _arc(0, 2 * np.pi) + [1, 0])


def _ellipsoid(rng: np.random.Generator) -> Mesh:
    vertices, faces = _revolve(_arc(-np.pi / 2, np.pi / 2))
    return vertices * rng.uniform(0.6, 1.6, 3), faces


def _right_helix(rng: np.random.Generator) -> Mesh:
    turns, pitch, tube = rng.uniform(1.5, 3), rng.uniform(0.4, 0.9), rng.uniform(0.08, 0.16)
    t = np.linspace(0, 2 * np.pi * turns, int(STEPS * turns))[:, None]
    outward = np.concatenate([np.cos(t), np.sin(t), 0 * t], axis=1)
    along = np.concatenate([-np.sin(t), np.cos(t), 0 * t + pitch / (2 * np.pi)], axis=1)
    upward = np.cross(outward, along / np.linalg.norm(along, axis=1, keepdims=True))
    middle = outward + np.concatenate([0 * t, 0 * t, pitch * t / (2 * np.pi)], axis=1)
    ring = tube * _arc(0, 2 * np.pi)
    return _grid_mesh(middle[:, None] + ring[:, :1] * outward[:, None] + ring[:, 1:] * upward[:, None])


def _left_helix(rng: np.random.Generator) -> Mesh:
    """Mirror image of a right helix; no rotation maps one to the other."""
    vertices, faces = _right_helix(rng)
    return vertices * [1, 1, -1], faces


def _tetrahedron(rng: np.random.Generator) -> Mesh:
    corners = np.array([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    return _hull(corners * rng.uniform(0.8, 1.2, 3) + rng.normal(0, 0.1, (4, 3)))


def _pyramid(rng: np.random.Generator) -> Mesh:
    base = np.array([[1.0, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0], [0, 0, 1]])
    return _hull(base * [*rng.uniform(0.8, 1.2, 2), rng.uniform(1, 2.5)])


def _hemisphere(rng: np.random.Generator) -> Mesh:
    dome = np.concatenate([[[0, 0]], _arc(0, np.pi / 2)])
    return _revolve(dome * [1, rng.uniform(0.7, 1.3)])


def _jack(rng: np.random.Generator) -> Mesh:
    """Three bars that cross in their middles."""
    signs = np.stack(np.meshgrid([-1, 1], [-1, 1], [-1, 1]), axis=-1).reshape(-1, 3)
    lengths, width = rng.uniform(0.8, 1.4, 3), rng.uniform(0.12, 0.25)
    bars = [_hull(signs * np.where(np.arange(3) == axis, lengths[axis], width)) for axis in range(3)]
    return np.concatenate([v for v, _ in bars]), np.concatenate([f + 8 * k for k, (_, f) in enumerate(bars)])


CLASSES: dict[str, Callable[[np.random.Generator], Mesh]] = {
    "box": _box,
    "cone": _cone,
    "cylinder": _cylinder,
    "ellipsoid": _ellipsoid,
    "hemisphere": _hemisphere,
    "jack": _jack,
    "left helix": _left_helix,
    "pyramid": _pyramid,
    "right helix": _right_helix,
    "tetrahedron": _tetrahedron,
    "torus": _torus,
}
