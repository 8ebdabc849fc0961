"""Images to rings: a polar grid as one sparse matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bispectral_ot.compiled import njit

SAMPLINGS = ("bilinear", "nearest")


@dataclass(frozen=True)
class PolarSampler:
    """Rings of given radii r, in pixels, by K angles ``t = 2 pi k / K``, as one sparse matrix.

    - ``"bilinear"`` interpolates about the exact centre, row ``(height - 1) / 2`` and column ``(width - 1) / 2``: a
      quarter turn of the image shifts the samples exactly if 4 divides K.
    - ``"nearest"`` takes the pixel at column ``floor(width / 2 + r cos t)`` and row ``floor(height / 2 + r sin t)``,
      as the paper's program does. Where a side is even, samples on the axes lie between two pixels, and the outer or
      the inner one is taken by the direction: turned images have other samples there. At multiples of 90 degrees
      rounding decides the pixel, too: ``cos(3 pi / 2)`` is -2e-16, not 0. Sine and cosine are those of the C library
      in double precision, as the formula says, and not cleaned up.

    What lies outside the image is 0.

    Attributes
    ----------
    matrix : sparse array of shape (n_rings * n_angles, height * width), float32
        Interpolation weights, times the weight of the ring.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.invariants import PolarSampler
    >>> grid = PolarSampler.build(
    ...     5, 5, radii=np.array([1, 2]), n_angles=4, sampling="bilinear", ring_weights=np.ones(2)
    ... )
    >>> grid.sample(np.arange(25, dtype=np.float32)[None])  # right, below, left, above the centre
    array([[[13., 17., 11.,  7.],
            [14., 22., 10.,  2.]]], dtype=float32)
    """

    matrix: Any
    n_rings: int
    n_angles: int

    @classmethod
    def build(
        cls,
        height: int,
        width: int,
        *,
        radii: NDArray[Any],
        n_angles: int,
        sampling: str,
        ring_weights: NDArray[np.float64],
    ) -> Self:
        """Make the matrix; ``radii`` and ``ring_weights`` (n_rings,), which multiply the rings."""
        angles = [2 * math.pi * k / n_angles for k in range(n_angles)]
        # the C library's functions: NumPy's own differ in the last bit between processors
        cosine = np.array([math.cos(t) for t in angles])
        sine = np.array([math.sin(t) for t in angles])
        n_rings, radius = len(radii), radii[:, None]
        if sampling == "nearest":
            x = np.floor(width / 2 + radius * cosine)
            y = np.floor(height / 2 + radius * sine)
        else:
            x = (width - 1) / 2 + radius * cosine
            y = (height - 1) / 2 + radius * sine
        left, top = np.floor(x), np.floor(y)
        samples, pixels, weights = [], [], []
        for column, weight_x in ((left, 1 - (x - left)), (left + 1, x - left)):
            for row, weight_y in ((top, 1 - (y - top)), (top + 1, y - top)):
                weight = weight_x * weight_y * ring_weights[:, None]
                seen = (weight != 0) & (column >= 0) & (column < width) & (row >= 0) & (row < height)
                samples.append(np.flatnonzero(seen))
                pixels.append((row[seen] * width + column[seen]).astype(np.int64))
                weights.append(weight[seen].astype(np.float32))
        matrix = scipy.sparse.csr_array(
            (np.concatenate(weights), (np.concatenate(samples), np.concatenate(pixels))),
            shape=(n_rings * n_angles, height * width),
        )
        return cls(matrix, n_rings, n_angles)

    def sample(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """Images (n, height * width) to rings (n, n_rings, n_angles)."""
        rings = np.empty((len(images), self.n_rings * self.n_angles), dtype=np.float32)
        weigh(self.matrix.indptr, self.matrix.indices, self.matrix.data, images, rings)
        return rings.reshape(len(images), self.n_rings, self.n_angles)


# SciPy's product wants one image a column and copies the batch to that order: three times the work itself.
@njit(nogil=True, cache=True)
def weigh(
    starts: NDArray[Any],
    columns: NDArray[Any],
    weights: NDArray[np.float32],
    rows: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Write the products of a sparse matrix (compressed rows) with each of ``rows`` to ``out``."""
    for n in range(len(rows)):
        for sample in range(len(starts) - 1):
            total = np.float32(0)
            for entry in range(starts[sample], starts[sample + 1]):
                total += weights[entry] * rows[n, columns[entry]]
            out[n, sample] = total
