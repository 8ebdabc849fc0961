"""Turns and shifts together: content that is not in the middle of its image."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.transforms import content_shifts
from bispectral_ot.datasets.warp import shift_maps, warp
from bispectral_ot.poses.motions import Floats, Located, MotionArray, Rows
from bispectral_ot.poses.planar import PlanarMotions


class CentredMotions(PlanarMotions):
    """Turns, and mirrors if the spectrum has that symmetry, about the centre of the content; then a shift.

    Images are centred by mass before they are compared (:func:`~bispectral_ot.center`). With the content of the
    source at s and that of the target at t, relative to the middle of the image, the shift after the turn R is
    ``t - R s``: so rows of coefficients end with s or t, and products with both, averaged like the other products.
    """

    def coefficients(self, signals: NDArray[Any]) -> Rows:
        """Polar spectra of the centred images, and where their content is: (n, c + 2)."""
        background, shifts = content_shifts(signals)
        centred = warp(signals, shift_maps(shifts[:, 0], shifts[:, 1]), fill=background)
        spectra = super().coefficients(centred)
        return np.concatenate([spectra, -shifts.astype(np.float32)], axis=1)

    def products(self, source: Rows, target: Rows, indices: NDArray[np.int64]) -> Rows:
        """Cross spectra, the place of the source's content, and that of the target's: (n, k, p + 4)."""
        spectra = super().products(source, target, indices)
        places = np.broadcast_to(source[:, None, -2:], (*indices.shape, 2)), target[indices, -2:]
        empty = (indices < 0) | ~spectra.any(axis=-1)
        return np.where(empty[..., None], 0, np.concatenate([spectra, *places], axis=-1))

    def fits(self, products: Rows) -> Rows:
        """Fits (..., g) at all angles of the grid."""
        return super().fits(products[..., :-4])

    def locate(self, products: Rows, start: NDArray[np.int64]) -> Located:
        """The best turn, and the shift after it."""
        found = super().locate(products[..., :-4], start)
        turns, mirrored = np.radians(found.motions[..., 0]), found.motions[..., 1]
        down, right = products[..., -4], np.where(mirrored == 1, -1, 1) * products[..., -3]
        # rows go down, so a counter-clockwise turn takes right to up
        moved = np.stack(
            [down * np.cos(turns) - right * np.sin(turns), right * np.cos(turns) + down * np.sin(turns)], -1
        )
        shifts = products[..., -2:] - moved
        return found._replace(motions=np.concatenate([found.motions, shifts], axis=-1))

    def practice(self, signals: NDArray[Any], *, seed: int) -> tuple[NDArray[Any], Floats]:
        """Images turned (and mirrored) at random; where they should be is not asked for."""
        moved, truth = super().practice(signals, seed=seed)
        return moved, np.concatenate([truth, np.zeros_like(truth)], axis=-1)

    def by_name(self, motions: Floats) -> MotionArray:
        """Angles, mirrors where there are any, and shifts."""
        named = super().by_name(motions)
        return MotionArray(named.angles, mirrored=named.mirrored, shifts=motions[..., 2:])
