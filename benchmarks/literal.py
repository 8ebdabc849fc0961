"""The paper's features written down as the paper states them: one image at a time, one ring at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.features import RingBispectrum

N_ANGLES = 40


def literal_features(images: NDArray[Any]) -> NDArray[np.float32]:
    """Unfolded ring bispectra (n, 2 R K K) of grey images (n, height, width), columns by ring, part, i, j.

    ``B[r, i, j] = F_i F_j conj(F_{(i + j) mod K})`` with F the DFT of ring r; real and imaginary parts of the whole,
    divided by its L2 norm. Only the index tables are made beforehand.
    """
    height, width = images.shape[1:3]
    angle = 2 * np.pi * np.arange(N_ANGLES) / N_ANGLES
    radius = np.arange(min(height, width) // 2)[:, None]
    rows = np.floor(height / 2 + radius * np.sin(angle)).astype(int)
    columns = np.floor(width / 2 + radius * np.cos(angle)).astype(int)
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    rows, columns = rows.clip(0, height - 1), columns.clip(0, width - 1)
    sums = np.add.outer(np.arange(N_ANGLES), np.arange(N_ANGLES)) % N_ANGLES
    features = np.empty((len(images), 2 * len(radius) * N_ANGLES**2), dtype=np.float32)
    for image, out in zip(images, features, strict=True):
        bispectra = []
        for r in range(len(radius)):
            ring = r * np.where(inside[r], image[rows[r], columns[r]], 0.0)
            spectrum = np.fft.fft(ring)
            bispectra.append(np.outer(spectrum, spectrum) * np.conj(spectrum[sums]))
        whole = np.stack(bispectra)
        whole /= np.linalg.norm(whole)
        out[:] = np.stack([whole.real, whole.imag], axis=1).ravel()
    return features


def folded(ring: RingBispectrum, literal: NDArray[np.float32]) -> NDArray[np.float32]:
    """Entries of literal features (n, 2 R K K) of grey images that are columns of a fitted ring bispectrum."""
    k, at = ring.n_angles, ring.index_map_
    return literal.reshape(len(literal), -1, 2, k, k)[:, at["ring"], at["part"], at["i"], at["j"]]
