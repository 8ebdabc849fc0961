"""Slow literal versions of the formulas, in double precision, to hold the fast code against."""

import math

import numpy as np
from numpy.typing import NDArray

METRICS = ("l1", "l2", "sqeuclidean", "cosine")


def ring_samples(
    image: NDArray, *, n_angles: int, n_rings: int, radial_weight: float, sampling: str
) -> NDArray[np.float64]:
    """Rings of a grey image, sample by sample, (n_rings, n_angles)."""
    height, width = image.shape

    def pixel(row: int, column: int) -> float:
        return float(image[row, column]) if 0 <= row < height and 0 <= column < width else 0.0

    samples = np.zeros((n_rings, n_angles))
    for r in range(n_rings):
        for a in range(n_angles):
            t = 2 * math.pi * a / n_angles
            if sampling == "nearest":
                value = pixel(math.floor(height / 2 + r * math.sin(t)), math.floor(width / 2 + r * math.cos(t)))
            else:
                y, x = (height - 1) / 2 + r * math.sin(t), (width - 1) / 2 + r * math.cos(t)
                top, left = math.floor(y), math.floor(x)
                value = (
                    (top + 1 - y) * (left + 1 - x) * pixel(top, left)
                    + (top + 1 - y) * (x - left) * pixel(top, left + 1)
                    + (y - top) * (left + 1 - x) * pixel(top + 1, left)
                    + (y - top) * (x - left) * pixel(top + 1, left + 1)
                )
            samples[r, a] = r**radial_weight * value
    return samples


def cyclic_bispectrum(signal: NDArray) -> NDArray[np.complex128]:
    """``B[i, j] = F_i F_j conj(F_{(i + j) mod n})``, (n, n), term by term."""
    n = len(signal)
    spectrum = [sum(complex(signal[t]) * np.exp(-2j * math.pi * f * t / n) for t in range(n)) for f in range(n)]
    bispectrum = np.zeros((n, n), dtype=np.complex128)
    for i in range(n):
        for j in range(n):
            bispectrum[i, j] = spectrum[i] * spectrum[j] * np.conj(spectrum[(i + j) % n])
    return bispectrum


def unit(vector: NDArray) -> NDArray:
    """The vector divided by its L2 norm; zero stays zero."""
    norm = np.linalg.norm(vector)
    return vector / norm if norm > 0 else vector


def ring_bispectrum(image: NDArray, *, n_angles=40, n_rings=None, radial_weight=1.0, sampling="bilinear") -> NDArray:
    """The features of one image by channel, ring, part (real, imaginary), i, j; unit norm per channel."""
    image = np.asarray(image, dtype=np.float64)
    channels = image[:, :, None] if image.ndim == 2 else image
    n_rings = min(image.shape[:2]) // 2 if n_rings is None else n_rings
    rows = []
    for c in range(channels.shape[2]):
        grid = {"n_angles": n_angles, "n_rings": n_rings, "radial_weight": radial_weight, "sampling": sampling}
        rings = ring_samples(channels[:, :, c], **grid)
        bispectra = unit(np.array([cyclic_bispectrum(ring) for ring in rings]).ravel()).reshape(n_rings, -1)
        rows.append(np.concatenate([bispectra.real, bispectra.imag], axis=1).ravel())
    return np.concatenate(rows)


def translation_bispectrum(image: NDArray, *, band_limit: int) -> dict[tuple[int, ...], complex]:
    """Entries of the low-passed image's bispectrum of unit norm, by (row_1, column_1, row_2, column_2)."""
    height, width = image.shape

    def coefficient(row: int, column: int) -> complex:
        wave = np.exp(-2j * math.pi * (row * np.arange(height)[:, None] / height + column * np.arange(width) / width))
        return complex(np.sum(image * wave))

    def in_band(row: int, column: int) -> bool:
        return all(min(f % s, -f % s) <= band_limit for f, s in ((row, height), (column, width)))

    def signed(frequency: int, size: int) -> int:
        frequency %= size
        return frequency - size if frequency > size // 2 else frequency

    grid = [(row, column) for row in range(height) for column in range(width)]
    spectrum = {k: coefficient(*k) for k in grid}
    entries = {}
    for a, b in (k for k in grid if in_band(*k)):
        for c, d in (k for k in grid if in_band(*k)):
            if in_band(a + c, b + d):
                key = (signed(a, height), signed(b, width), signed(c, height), signed(d, width))
                total = spectrum[(a + c) % height, (b + d) % width]
                entries[key] = spectrum[a, b] * spectrum[c, d] * total.conjugate()
    norm = math.sqrt(sum(abs(value) ** 2 for value in entries.values()))
    return {key: value / norm for key, value in entries.items()}


def distance(x: NDArray, y: NDArray, metric: str, weights: NDArray | None = None) -> float:
    """Distance of two vectors whose entry c stands for ``weights[c]`` equal entries."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    w = np.ones_like(x) if weights is None else np.asarray(weights, dtype=np.float64)
    if metric == "l1":
        return float(np.sum(w * np.abs(x - y)))
    if metric == "l2":
        return float(np.sqrt(np.sum(w * (x - y) ** 2)))
    if metric == "sqeuclidean":
        return float(np.sum(w * (x - y) ** 2))
    assert metric == "cosine"
    return float(1 - np.sum(w * x * y) / np.sqrt(np.sum(w * x * x) * np.sum(w * y * y)))


def distances(source: NDArray, target: NDArray, metric: str, weights: NDArray | None = None) -> NDArray[np.float64]:
    """All distances between the rows of source (n, k) and target (m, k), pair by pair, (n, m)."""
    return np.array([[distance(x, y, metric, weights) for y in target] for x in source])
