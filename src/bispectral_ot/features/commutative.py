"""Bispectra on commutative groups: rings under rotations (the paper's invariant), images under cyclic shifts."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from bispectral_ot.checks import check_choice, check_integer
from bispectral_ot.errors import InputError
from bispectral_ot.features.kernels import multiply, normalize_rows
from bispectral_ot.features.polar import SAMPLINGS, Index, PolarSampler
from bispectral_ot.transformer import BatchTransformer, Columns, Rows, columns_table, scaled_channels, take_out_sizes


class TripleOrbits(NamedTuple):
    """Index pairs (i, j) of ``B[i, j] = F_i F_j conj(F_{i+j})``, one per symmetry orbit.

    For a real signal ``B[i, j] = F_i F_j F_k`` with ``k = -(i + j)`` is invariant to permutations of the triple, and
    negating the triple conjugates it. An orbit equal to its own negation is real and has no imaginary column.
    Columns are the real parts of all orbits (the always-real ones first), then imaginary parts of the others.
    """

    triples: Index  # (3, n_orbits) that represent the orbits, as positions in the list of frequencies
    n_real: int  # number of orbits, the first ones, that are always real
    of_columns: Index  # number of the orbit of each column
    part: Index  # of each column: 0 real, 1 imaginary
    multiplicity: Index  # number of index pairs of each column


def triple_orbits(third: Index, negation: Index) -> TripleOrbits:
    """Orbits, given the number (n, n) of the frequency ``-(f + g)`` (-1: left out) and the number (n,) of ``-f``."""
    n = len(negation)
    first, second = np.nonzero(third >= 0)
    triples = np.sort([first, second, third[first, second]], axis=0)
    place = np.array([n * n, n, 1])
    key = place @ triples
    mirrored = place @ np.sort(negation[triples], axis=0)
    kept, first_seen, multiplicity = np.unique(np.minimum(key, mirrored), return_index=True, return_counts=True)
    is_real = (key == mirrored)[first_seen]
    order, n_real = np.argsort(~is_real, kind="stable"), int(is_real.sum())
    of_columns, part = np.r_[: len(kept), n_real : len(kept)], np.repeat([0, 1], [len(kept), len(kept) - n_real])
    triples = np.stack(np.unravel_index(kept[order], (n, n, n)))
    return TripleOrbits(triples, n_real, of_columns, part, multiplicity[order][of_columns])


class OrbitBispectrum(BatchTransformer):
    """Bispectra of the channels of an image, one column per symmetry orbit, each channel of norm 1."""

    orbits_: TripleOrbits

    @abstractmethod
    def _spectra(self, images: Rows) -> NDArray[np.complex64]:
        """Fourier coefficients (n, ..., frequencies) of channels (n, pixels)."""

    def _fill(self, rows: NDArray[Any], out: Rows) -> int:
        n = len(rows) * self._channels
        spectra = self._spectra(scaled_channels(rows, self._channels).reshape(n, -1))
        take_out_sizes(spectra.view(np.float32))
        signals, channels = spectra.reshape(-1, spectra.shape[-1]), out.reshape(n, -1)
        multiply(signals, self.orbits_.triples, self.orbits_.n_real, out.reshape(len(signals), -1), 0)
        vanishing = np.empty(n, dtype=np.bool_)
        normalize_rows(channels, self.feature_weights_[: channels.shape[1]], vanishing, 1.0, 0)
        return int(vanishing.reshape(len(rows), -1).any(axis=1).sum())


@dataclass(kw_only=True, repr=False, eq=False)
class RingBispectrum(OrbitBispectrum):
    """Bispectrum of each ring of a polar grid: invariant to rotations of the image.

    With F the DFT of ring r along the angle, ``B[r, i, j] = F_i F_j conj(F_{(i + j) mod K})``; each channel is
    divided by its L2 norm. The defaults are the paper's except for ``sampling="nearest"``. Rotating each ring by its
    own angle has no effect: the map is not complete for images. One entry per symmetry orbit of (i, j) is kept.

    Parameters
    ----------
    n_angles : Samples per ring, K.
    n_rings : Rings r = 0 to n_rings - 1; by default min(height, width) // 2 of them. Outside the image they sample 0.
    radial_weight : Ring r is multiplied by ``r ** radial_weight``.
    sampling : ``"bilinear"`` about the exact centre, or ``"nearest"``, the paper's grid (:class:`PolarSampler`).

    Notes
    -----
    ``index_map_`` has the fields channel, ring, i, j, part (0 real, 1 imaginary), by channel, ring, part and pair.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import RingBispectrum
    >>> images = np.random.default_rng(0).random((3, 28, 28))
    >>> bispectrum = RingBispectrum().fit(images)
    >>> np.allclose(bispectrum.transform(np.rot90(images, axes=(1, 2))), bispectrum.transform(images), atol=1e-6)
    True
    """

    symmetries = ("rotation",)

    n_angles: int = 40
    n_rings: int | None = None
    radial_weight: float = 1.0
    sampling: str = "bilinear"

    def _prepare(self) -> Columns:
        height, width = self.image_shape_[:2]
        n_angles = check_integer("n_angles", self.n_angles, minimum=1)
        given = self.n_rings is not None
        n_rings = check_integer("n_rings", self.n_rings, minimum=1) if given else min(height, width) // 2
        check_choice("sampling", self.sampling, SAMPLINGS)
        if not (self.radial_weight >= 0 and math.isfinite(self.radial_weight)):
            raise InputError(f"radial_weight must be at least 0 and finite, got {self.radial_weight!r}.")
        if n_rings < (1 if self.radial_weight == 0 else 2):
            problem = f"{height} x {width} images have {n_rings} ring(s), of which ring 0 weighs nothing"
            raise InputError(f"{problem}; give images of at least 4 x 4 pixels, more rings, or radial_weight=0.")
        radii = np.arange(n_rings)
        # relative to the outermost ring: the unit norm removes the factor, and no power can overflow
        weights_of_rings = (radii / max(1, n_rings - 1)) ** self.radial_weight
        self.sampler_ = PolarSampler.build(
            height, width, radii=radii, n_angles=n_angles, sampling=self.sampling, ring_weights=weights_of_rings
        )
        frequency = np.arange(n_angles)
        orbits = self.orbits_ = triple_orbits(-(frequency[:, None] + frequency) % n_angles, -frequency % n_angles)
        channel, ring, _ = np.ix_(range(self._channels), range(n_rings), [0])
        i, j, _ = orbits.triples[:, orbits.of_columns]
        index_map = columns_table(channel=channel, ring=ring, i=i, j=j, part=orbits.part)
        return index_map, np.tile(orbits.multiplicity, channel.size * ring.size).astype(np.float32)

    def _scratch_per_row(self) -> int:
        samples = self._channels * self.sampler_.n_rings * self.sampler_.n_angles
        return 12 * self.n_features_in_ + 16 * samples

    def _spectra(self, images: Rows) -> NDArray[np.complex64]:
        return scipy.fft.fft(self.sampler_.sample(images))


@dataclass(kw_only=True, repr=False, eq=False)
class TranslationBispectrum(OrbitBispectrum):
    """Bispectrum on Z/height x Z/width: invariant to cyclic shifts of the image.

    ``B[k1, k2] = F[k1] F[k2] conj(F[k1 + k2])`` with F the 2-D DFT, for all frequencies within the band
    ``|k|_inf <= band_limit``; one per symmetry orbit, whose size is its weight. A channel is divided by its L2 norm.

    Parameters
    ----------
    band_limit : Highest frequency, in periods per image side; columns grow with its fourth power: 1,393 for 5.

    Notes
    -----
    Shifts are cyclic: content that leaves the image on one side reappears on the other. Use images with a plain border.
    ``index_map_`` has the fields channel, row_1, column_1, row_2, column_2 (signed k1, k2), part (0 real, 1 imaginary).

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import TranslationBispectrum
    >>> images = np.random.default_rng(0).random((2, 20, 30))
    >>> bispectrum = TranslationBispectrum().fit(images)
    >>> shifted = np.roll(images, (3, -7), axis=(1, 2))
    >>> np.allclose(bispectrum.transform(shifted), bispectrum.transform(images), atol=1e-6)
    True
    """

    symmetries = ("translation",)

    band_limit: int = 5

    def _prepare(self) -> Columns:
        height, width = self.image_shape_[:2]
        band_limit = check_integer("band_limit", self.band_limit, minimum=0)
        places = np.indices((height, width))
        low = np.minimum(places, np.array([[[height]], [[width]]]) - places).max(axis=0) <= band_limit
        rows, columns = np.nonzero(low)
        self.band_ = rows, columns
        number = np.full((height, width), -1)
        number[rows, columns] = np.arange(len(rows))
        third = number[-(rows[:, None] + rows) % height, -(columns[:, None] + columns) % width]
        orbits = self.orbits_ = triple_orbits(third, number[-rows % height, -columns % width])
        # frequencies from -(size - 1) // 2 to size // 2
        signed = [np.where(at > size // 2, at - size, at) for at, size in ((rows, height), (columns, width))]
        pairs = [each[orbits.triples[place, orbits.of_columns]] for place in (0, 1) for each in signed]
        fields = dict(zip(("row_1", "column_1", "row_2", "column_2"), pairs, strict=True))
        index_map = columns_table(channel=np.arange(self._channels)[:, None], **fields, part=orbits.part)
        return index_map, np.tile(orbits.multiplicity, self._channels).astype(np.float32)

    def _scratch_per_row(self) -> int:
        return 24 * self.n_features_in_

    def _spectra(self, images: Rows) -> NDArray[np.complex64]:
        spectra = scipy.fft.fft2(images.reshape(-1, *self.image_shape_[:2]))
        return np.ascontiguousarray(spectra[:, *self.band_])
