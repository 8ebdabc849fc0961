"""What becomes of a ray at each angular frequency: rings as they are, or Fourier-Bessel coefficients."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.special
from numpy.typing import NDArray

BASES = ("polar", "disk-harmonic")


@dataclass(frozen=True)
class RadialBasis:
    """Linear maps from the rings to coefficients, one per angular frequency.

    Attributes
    ----------
    radii : (n_rings,) of the rings that are sampled, in pixels
    matrices : (n_frequencies, n_coefficients, n_rings), zero where a frequency has fewer coefficients
    counts : (n_frequencies,) how many it has
    """

    radii: NDArray[np.float64]
    matrices: NDArray[np.float32]
    counts: NDArray[np.int64]


def polar_basis(radius: float, *, n_rings: int, max_frequency: int) -> RadialBasis:
    """Rings at the middle of ``n_rings`` equal steps, times ``sqrt(r)`` for the area that each stands for."""
    radii = (np.arange(n_rings) + 0.5) * radius / n_rings
    matrix = np.diag(np.sqrt(radii / radius))
    n_frequencies = max_frequency + 1
    matrices = np.broadcast_to(matrix, (n_frequencies, n_rings, n_rings)).astype(np.float32)
    return RadialBasis(radii, matrices, np.full(n_frequencies, n_rings))


def disk_harmonic_basis(radius: float, *, n_rings: int, max_frequency: int) -> RadialBasis:
    """Fourier-Bessel coefficients on the disk: ``integral of f(r) J_k(z r / radius) r dr``, orthonormal.

    z runs over the positive zeros of J_k up to the ``n_rings``-th zero of J_0, so that all functions are about
    equally fine. The integral is a sum over rings about a pixel apart.
    """
    n_samples = max(2 * n_rings, math.ceil(radius))
    radii = (np.arange(n_samples) + 0.5) * radius / n_samples
    finest = scipy.special.jn_zeros(0, n_rings)[-1]
    matrices = np.zeros((max_frequency + 1, n_rings, n_samples), dtype=np.float32)
    counts = np.zeros(max_frequency + 1, dtype=np.int64)
    for k in range(max_frequency + 1):
        zeros = scipy.special.jn_zeros(k, n_rings)
        zeros = zeros[zeros <= finest][:, None]
        norms = np.abs(scipy.special.jv(k + 1, zeros)) / math.sqrt(2)
        area = radii / radius / n_samples
        counts[k] = len(zeros)
        matrices[k, : counts[k]] = scipy.special.jv(k, zeros * radii / radius) / norms * area
    return RadialBasis(radii, matrices, counts)
