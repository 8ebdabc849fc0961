"""Images as signals on the sphere."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import map_coordinates
from scipy.spatial.transform import Rotation

from bispectral_ot.groups.sphere import equiangular_grid


def project_to_sphere(
    images: ArrayLike,
    *,
    shape: tuple[int, int] = (32, 64),
    angle: float = 90.0,
    rotations: Rotation | None = None,
    seed: int | None = None,
) -> NDArray[np.float32]:
    """Stereographic projection of images (n, height, width) around the north pole, on the equiangular grid.

    Values between pixels are interpolated bilinearly; outside the image they are 0.

    Parameters
    ----------
    images
        Images.
    shape
        Size (n_theta, n_phi) of the grid.
    angle
        Degrees from the pole to the middle of the image's edges.
    rotations, seed
        One rotation per image, applied after the projection; or the seed from which they are drawn.
    """
    pixels = np.asarray(images, dtype=np.float32)
    n, height, width = pixels.shape
    if seed is not None:
        rotations = Rotation.random(n, rng=np.random.default_rng(seed))
    turns = np.broadcast_to((rotations or Rotation.identity()).as_matrix(), (n, 3, 3))
    grid = equiangular_grid(*shape)[0].reshape(-1, 3)
    signals = np.empty((n, len(grid)), dtype=np.float32)
    for signal, image, turn in zip(signals, pixels, turns, strict=True):
        x, y, z = (grid @ turn).T  # a row times a rotation matrix is rotated by its inverse
        # the south pole is at infinity; tiny denominators only move it farther away
        stretch = 1 / (np.maximum(1 + z, 1e-9) * np.tan(np.radians(angle) / 2))
        where = (height - 1) / 2 - y * stretch * height / 2, (width - 1) / 2 + x * stretch * width / 2
        signal[:] = map_coordinates(image, where, order=1)
    return signals.reshape(n, *shape)
