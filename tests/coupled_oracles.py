"""Slow literal versions of the polar fields and the coupled invariants, in double precision."""

import cmath
import math

import numpy as np
import scipy.ndimage
from numpy.typing import NDArray


def sample(image: NDArray, radius: float, angle: float) -> float:
    """The image at one point of the plane about its centre; bilinear, 0 outside."""
    height, width = image.shape
    y, x, total = (height - 1) / 2 + radius * math.sin(angle), (width - 1) / 2 + radius * math.cos(angle), 0.0
    for row in (math.floor(y), math.floor(y) + 1):
        for column in (math.floor(x), math.floor(x) + 1):
            if 0 <= row < height and 0 <= column < width:
                total += (1 - abs(y - row)) * (1 - abs(x - column)) * image[row, column]
    return total


def area_means(image: NDArray, cell: int) -> tuple[NDArray, NDArray]:
    """Means of one image (H, W) over the parts inside of it of cells about its centre, and the share of these parts."""
    shape = [math.ceil(size / cell) for size in image.shape]

    def overlap(axis: int, number: int, pixel: int) -> float:
        start = (image.shape[axis] - shape[axis] * cell) / 2 + number * cell
        return max(0.0, min(start + cell, pixel + 1) - max(start, pixel))

    means, inside = np.zeros(shape), np.zeros(shape)
    for cell_at in np.ndindex(*shape):
        for pixel in np.ndindex(*image.shape):
            area = overlap(0, cell_at[0], pixel[0]) * overlap(1, cell_at[1], pixel[1])
            means[cell_at] += area * image[pixel]
            inside[cell_at] += area
    return means / inside, inside / cell**2


def polar_fields(image: NDArray, *, cell: int, radii: NDArray, spacing: float, n_angles: int) -> NDArray:
    """Intensities of the channels and five edge fields of one image (H, W, C) averaged over cells; radii in cells."""
    angles = [2 * math.pi * a / n_angles for a in range(n_angles)]
    contents, strengths, directions = [], 0.0, {2: 0.0, 4: 0.0}
    variance = (1 - 1 / cell**2) / 12  # averaging has blurred by as much
    for channel in np.moveaxis(np.asarray(image, dtype=np.float64), 2, 0):
        channel, inside = area_means(channel, cell)
        border = [sample(channel, (min(image.shape[:2]) - 1) / 2 / cell, angle) for angle in angles]
        content = (channel - np.median(border)) * inside
        contents.append(content)
        sigma = math.sqrt(max(0.7, 0.5 * spacing) ** 2 - variance)
        down = scipy.ndimage.gaussian_filter(content, sigma, order=(1, 0), mode="constant")
        across = scipy.ndimage.gaussian_filter(content, sigma, order=(0, 1), mode="constant")
        strengths = strengths + np.sqrt(np.hypot(across, down))
        for multiple in directions:
            turned = np.exp(1j * multiple * np.arctan2(down, across))
            directions[multiple] = directions[multiple] + np.sqrt(np.hypot(across, down)) * turned

    def blurred(values: NDArray, width: float) -> NDArray:
        return scipy.ndimage.gaussian_filter(values, math.sqrt((width * spacing) ** 2 - variance), mode="constant")

    def on_the_grid(values: NDArray) -> NDArray:
        return np.array([[sample(values, r, t) for t in angles] for r in radii])

    fields = [on_the_grid(blurred(content, 0.35)) for content in contents]
    fields.append(on_the_grid(blurred(strengths, 0.7)))
    for multiple, direction in directions.items():
        parts = [on_the_grid(blurred(part, 0.7)) for part in (direction.real, direction.imag)]
        seen = (parts[0] + 1j * parts[1]) * np.exp(-1j * multiple * np.array(angles))
        fields += [seen.real, seen.imag]
    return np.array(fields)


def coefficient(ring: NDArray, frequency: int) -> complex:
    """One Fourier coefficient of a ring, term by term."""
    n = len(ring)
    return sum(ring[t] * cmath.exp(-2j * math.pi * frequency * t / n) for t in range(n)) / n


def compressed(z: complex, power: float) -> complex:
    """The same phase, the magnitude to a power."""
    return z * abs(z) ** (power - 1) if z else 0j


def coupled_bispectrum(
    image: NDArray, index_map: NDArray, *, n_rings: int, n_angles: int, radius: float, edge_weight: float, cell: int = 1
) -> NDArray[np.float64]:
    """The rotation features of one grey image (H, W) by the columns of ``index_map``: power 1/2, two bands."""
    outer = radius * min(image.shape) / 2 / cell
    radii = (np.arange(n_rings) + 0.5) * outer / n_rings
    fields = polar_fields(image[:, :, None], cell=cell, radii=radii, spacing=outer / n_rings, n_angles=n_angles)

    def value(field: int, ring: int, frequency: int) -> complex:
        return math.sqrt(radii[ring] / outer) * coefficient(fields[field, ring], frequency)

    def band(number: int, frequency: int) -> complex:
        rings = range(n_rings // 2) if number == 0 else range(n_rings // 2, n_rings)
        return sum(value(0, ring, frequency) for ring in rings) / len(rings)

    entries, total = [], {False: 0.0, True: 0.0}
    for column in index_map:
        i, j, r, s, t = (int(column[name]) for name in "ijrst")
        if column["kind"] == 0:
            product = value(column["field"], r, i) * value(column["field"], s, i).conjugate()
            entry, count = compressed(product, 0.5), (1 if r == s else 2) * (1 if i == 0 else 2)
        else:
            product = band(r, i) * band(s, j) * band(t, i + j).conjugate()
            entry, count = 0.3 * compressed(product, 1 / 3), (1 if i == j and r == s else 2) * (1 if j == 0 else 2)
        part = entry.imag if column["part"] else entry.real
        entries.append(part)
        total[bool(column["field"])] += count * part**2
    is_edge = index_map["field"] > 0
    norms = np.where(is_edge, math.sqrt(total[True]) / edge_weight, math.sqrt(total[False]))
    return np.array(entries) / norms / math.hypot(1, edge_weight)
