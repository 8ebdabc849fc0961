"""Bispectra of the rings of a polar grid: the rotation invariant of the paper."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from bispectral_ot.checks import check_choice, check_integer
from bispectral_ot.errors import InputError
from bispectral_ot.features.kernels import multiply, normalize_rows
from bispectral_ot.features.polar import SAMPLINGS, PolarSampler
from bispectral_ot.groups.orbits import cyclic_orbits
from bispectral_ot.transformer import BatchTransformer, Columns, Rows, columns_table, scaled_channels, take_out_sizes


class RingBispectrum(BatchTransformer):
    """Bispectrum of each ring of a polar grid: invariant to turning the image.

    With F the DFT of ring r along the angle, ``B[r, i, j] = F_i F_j conj(F_{(i + j) mod K})``; the whole of a channel
    is divided by its L2 norm. The defaults are the paper's but for ``sampling="nearest"``. Each ring may turn by its
    own angle unnoticed: the map is not complete for images.

    Parameters
    ----------
    n_angles : int
        Samples per ring, K.
    n_rings : int, optional
        Rings r = 0 to n_rings - 1; by default R = min(height, width) // 2 of them. Outside the image they sample 0.
    radial_weight : float
        Ring r is multiplied by ``r ** radial_weight``.
    sampling : {"bilinear", "nearest"}
        Interpolation about the exact centre, or the paper's grid, which is up to half a pixel off. See
        :class:`~bispectral_ot.features.PolarSampler`.
    folded : bool
        Keep one entry per symmetry orbit of (i, j) (4,018 columns for 28 x 28), with multiplicities in
        ``feature_weights_``; or all ``2 R K K`` of them (44,800).

    Notes
    -----
    ``index_map_`` has the fields channel, ring, i, j, part (0 real, 1 imaginary); columns run over channels,
    rings, parts and index pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import RingBispectrum
    >>> images = np.random.default_rng(0).random((3, 28, 28))
    >>> bispectrum = RingBispectrum().fit(images)
    >>> features = bispectrum.transform(images)
    >>> np.allclose(bispectrum.transform(np.rot90(images, axes=(1, 2))), features, atol=1e-6)
    True
    """

    symmetries = ("rotation",)

    def __init__(
        self,
        *,
        n_angles: int = 40,
        n_rings: int | None = None,
        radial_weight: float = 1.0,
        sampling: str = "bilinear",
        folded: bool = True,
    ) -> None:
        self.n_angles = n_angles
        self.n_rings = n_rings
        self.radial_weight = radial_weight
        self.sampling = sampling
        self.folded = folded

    def _prepare(self) -> Columns:
        height, width = self.image_shape_[:2]
        n_angles = check_integer("n_angles", self.n_angles, minimum=1)
        n_rings = min(height, width) // 2
        if self.n_rings is not None:
            n_rings = check_integer("n_rings", self.n_rings, minimum=1)
        check_choice("sampling", self.sampling, SAMPLINGS)
        if not (self.radial_weight >= 0 and math.isfinite(self.radial_weight)):
            raise InputError(f"radial_weight must be at least 0 and finite, got {self.radial_weight!r}.")
        if n_rings < (1 if self.radial_weight == 0 else 2):
            raise InputError(
                f"{height} x {width} images have {n_rings} ring(s), of which ring 0 weighs nothing; "
                "give images of at least 4 x 4 pixels, more rings, or radial_weight=0."
            )
        radii = np.arange(n_rings)
        # relative to the outermost ring: the unit norm removes the factor, and no power can overflow
        weights_of_rings = (radii / max(1, n_rings - 1)) ** self.radial_weight
        self.sampler_ = PolarSampler.build(
            height, width, radii=radii, n_angles=n_angles, sampling=self.sampling, ring_weights=weights_of_rings
        )
        orbits = self.orbits_ = cyclic_orbits(n_angles)
        if self.folded:
            i, j, part = orbits.to_columns(orbits.i), orbits.to_columns(orbits.j), orbits.part
            weights = orbits.to_columns(orbits.multiplicity)
        else:
            part, i, j = np.indices((2, n_angles, n_angles)).reshape(3, -1)
            weights = np.ones_like(part)
        channel, ring, _ = np.ix_(range(self._channels), range(n_rings), [0])
        index_map = columns_table(channel=channel, ring=ring, i=i, j=j, part=part)
        return index_map, np.tile(weights, channel.size * ring.size).astype(np.float32)

    def _scratch_per_row(self) -> int:
        samples = self._channels * self.sampler_.n_rings * self.sampler_.n_angles
        return 12 * self.n_features_in_ + 16 * samples + (0 if self.folded else 8 * self.n_features_out_)

    def _fill(self, rows: NDArray[Any], out: Rows) -> int:
        images = scaled_channels(rows, self._channels)
        samples = self.sampler_.sample(images.reshape(len(rows) * self._channels, -1))
        vanishing = self._fill_from_rings(samples, out.reshape(len(samples), -1))
        return int(vanishing.reshape(len(rows), -1).any(axis=1).sum())

    def _fill_from_rings(self, samples: Rows, out: Rows) -> NDArray[np.bool_]:
        """Write the features of rings (n, n_rings, n_angles) to ``out``; return which of them vanish."""
        n, orbits = len(samples), self.orbits_
        folded = out if self.folded else np.empty((n, samples.shape[1] * orbits.n_columns), dtype=np.float32)
        spectra = scipy.fft.fft(samples)
        take_out_sizes(spectra.view(np.float32))
        spectra = spectra.reshape(n * samples.shape[1], -1)
        multiply(spectra, np.stack([orbits.i, orbits.j, orbits.k]), orbits.n_real, folded.reshape(len(spectra), -1))
        weights = np.tile(orbits.to_columns(orbits.multiplicity), samples.shape[1]).astype(np.float32)
        vanishing = np.empty(n, dtype=np.bool_)
        normalize_rows(folded, weights, vanishing)
        if not self.folded:
            out[:] = orbits.unfold(folded.reshape(n, -1, orbits.n_columns)).reshape(out.shape)
        return vanishing
