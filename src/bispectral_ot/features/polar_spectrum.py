"""Steerable coefficients of an image: turning the image multiplies those of frequency k by ``e^{-i k angle}``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from bispectral_ot.checks import check_choice, check_integer, check_positive
from bispectral_ot.errors import InputError
from bispectral_ot.features.polar import N_EDGE_FIELDS, PolarFields
from bispectral_ot.features.products import normalize_rows
from bispectral_ot.transformer import BatchTransformer, Columns, Rows, columns_table, unit_weights

# Finer images are averaged over cells of whole pixels, so that as many cells are left between two samples along a ray
# or around the outermost ring: with fewer, interpolation would show under turns; more would only cost time.
_LEAST_SPACING = 2.5
# Fields that change sign in a mirror: sin 2p and sin 4p, counted from the first edge field.
_ODD_EDGE_FIELDS = (2, 4)


class SteerableTransformer(BatchTransformer):
    """Images to complex coefficients by angular frequency, field and ring.

    The fields of :class:`~bispectral_ot.features.polar.PolarFields` are Fourier transformed along the angle. Turning
    the image by an angle multiplies the coefficients of frequency k by ``e^{-i k angle}``, and a mirror image has the
    conjugate coefficients. Rings lie at the middle of equal steps and count with ``sqrt(r)``, for their area.
    """

    symmetries = ("rotation", "rotation-reflection")
    default_metric = "sqeuclidean"  # it kept classes together best

    symmetry: str = symmetries[0]
    n_rings: int
    max_frequency: int
    n_angles: int
    radius: float
    edge_weight: float
    cell_: int
    fields_: PolarFields

    def _prepare_coefficients(self) -> None:
        height, width = self.image_shape_[:2]
        check_choice("symmetry", self.symmetry, self.symmetries)
        n_rings = check_integer("n_rings", self.n_rings, minimum=1)
        max_frequency = check_integer("max_frequency", self.max_frequency, minimum=0)
        n_angles = check_integer("n_angles", self.n_angles, minimum=1)
        if n_angles < 2 * max_frequency + 1:
            raise InputError(
                f"{n_angles} angles resolve frequencies up to {(n_angles - 1) // 2}; "
                f"give n_angles of at least {2 * max_frequency + 1}, or a smaller max_frequency."
            )
        check_positive("radius", self.radius, "1 is the largest disk inside the image")
        if not (self.edge_weight >= 0 and math.isfinite(self.edge_weight)):
            raise InputError(f"edge_weight must be at least 0 and finite, got {self.edge_weight!r}.")
        if min(height, width) < 2:
            raise InputError(f"{height} x {width} images are too small to turn; give at least 2 x 2 pixels.")
        radius = self.radius * min(height, width) / 2
        # the finer of the distances between two rings and between two samples of the outermost ring
        finest = radius * min(1 / n_rings, 2 * math.pi / n_angles)
        self.cell_ = max(1, math.floor(finest / _LEAST_SPACING))
        spacing = radius / self.cell_ / n_rings
        middles, edges = np.arange(n_rings) + 0.5, self.edge_weight > 0
        self.fields_ = PolarFields.build(
            (height, width), self.cell_, radii=middles * spacing, spacing=spacing, n_angles=n_angles, edges=edges
        )
        self._n_fields = self._channels + (N_EDGE_FIELDS if edges else 0)
        self._ring_weights = np.sqrt(middles / n_rings).astype(np.float32)

    def _scratch_per_row(self) -> int:
        samples, pixels = self._n_fields * self.n_rings * self.n_angles, len(self.fields_.inside)
        line = 8 * self.image_shape_[1] * self._channels
        return line + 32 * self._channels * pixels + 28 * self._n_fields * pixels + 24 * samples

    def _coefficients(self, samples: Rows) -> NDArray[np.complex64]:
        """Fields (n, n_fields, n_rings, n_angles) to coefficients (n, n_frequencies, n_fields, n_rings)."""
        spectra = scipy.fft.rfft(samples)[..., : self.max_frequency + 1].transpose(0, 3, 1, 2)
        coefficients: NDArray[np.complex64] = spectra * (self._ring_weights / np.float32(self.n_angles))
        if self.edge_weight > 0:
            for odd in _ODD_EDGE_FIELDS:  # times i, so that mirrors conjugate all coefficients alike
                coefficients[:, :, self._channels + odd] *= np.complex64(1j)
        return coefficients


class PolarSpectrum(SteerableTransformer):
    """The coefficients themselves, for distances that find the best rotation of each pair.

    They are *not* invariant: :class:`~bispectral_ot.costs.AlignedDistance` turns every pair of rows to its best fit.
    Intensities and edges have unit norm each (before ``edge_weight``), and so has the whole row: neither brightness
    nor contrast counts.

    Parameters
    ----------
    symmetry : {"rotation", "rotation-reflection"}
        With the latter, the best fit is sought among mirror images as well.
    n_rings, max_frequency, n_angles, radius, edge_weight
        As in :class:`~bispectral_ot.GlobalBispectrum`. Without edges (0), distances are those of the images.

    Notes
    -----
    ``index_map_`` has the fields frequency, part (0 real, 1 imaginary), field (channels, then five edge fields) and
    ring. Columns of frequency k > 0 stand for -k as well and are multiplied by ``sqrt(2)``, so that the
    Euclidean distance of two rows is that of the band-limited fields.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import PolarSpectrum
    >>> images = np.random.default_rng(0).random((2, 28, 28))
    >>> spectrum = PolarSpectrum().fit(images)
    >>> before, after = (
    ...     spectrum.transform(each).reshape(2, 10, 2, -1) for each in (images, np.rot90(images, 2, axes=(1, 2)))
    ... )
    >>> np.allclose(after[:, 1::2], -before[:, 1::2], atol=1e-5)  # half a turn: e^{-i pi k} is -1 for odd k
    True
    """

    metrics = ("l2", "sqeuclidean", "cosine")
    aligns = True

    def __init__(
        self,
        *,
        symmetry: str = "rotation",
        n_rings: int = 10,
        max_frequency: int = 9,
        n_angles: int = 40,
        radius: float = 1.04,
        edge_weight: float = 2.0,
    ) -> None:
        self.symmetry = symmetry
        self.n_rings = n_rings
        self.max_frequency = max_frequency
        self.n_angles = n_angles
        self.radius = radius
        self.edge_weight = edge_weight

    def _prepare(self) -> Columns:
        self._prepare_coefficients()
        sizes = (self.max_frequency + 1, 2, self._n_fields, self.n_rings)
        frequency, part, field, ring = np.ix_(*map(range, sizes))
        return unit_weights(columns_table(frequency=frequency, part=part, field=field, ring=ring))

    def _fill(self, rows: NDArray[Any], out: Rows) -> int:
        coefficients = self._coefficients(self.fields_.sample(rows, self._channels))
        coefficients[:, 1:] *= np.float32(math.sqrt(2))
        n = len(rows)
        vanishing = np.empty(n, dtype=np.bool_)
        for fields, weight in ((slice(self._channels), 1.0), (slice(self._channels, None), self.edge_weight)):
            if weight > 0:
                block = np.ascontiguousarray(coefficients[:, :, fields])
                plain = block.view(np.float32).reshape(n, -1)
                length = weight / math.hypot(1, self.edge_weight)
                normalize_rows(plain, np.ones(plain.shape[1], dtype=np.float32), vanishing, length)
                coefficients[:, :, fields] = block
        out[:] = np.stack([coefficients.real, coefficients.imag], axis=2).reshape(n, -1)
        return int((~out.any(axis=1)).sum())
