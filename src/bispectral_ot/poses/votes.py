"""The pose on which the targets of a source agree."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.poses.motions import TOLERANCE, Floats, Motions, Rows

# A target counts by the square root of its share of the mass, and by its misfit to this power (docs/poses.md).
_MISFIT_POWER = -3
# Misfits smaller than this are equal: identical images do not outvote all others.
_LEAST_MISFIT = 1e-3


class Votes(NamedTuple):
    """The result of a vote for each of n sources with k targets.

    Attributes
    ----------
    motions : (n, q) the motions that fit the targets best together
    runner_up : (n, q) the best ones that differ from them by more than the tolerance
    fits : (n,) mean correlation with the targets, at most 1
    widths : (n,) of the peak, in degrees; NaN for discrete motions
    margins : (n,) logarithm of the misfit of the runner-up relative to that of the winner
    agreement : (n,) share of the targets that by themselves ask for the same motion, but for the tolerance
    support : (n,) their share of the weights
    by_target : (n, k, q) the motion that each target asks for
    weights : (n, k) how much each target counts; rows sum to 1, or to 0 where there is no target
    """

    motions: Floats
    runner_up: Floats
    fits: Floats
    widths: Floats
    margins: Floats
    agreement: Floats
    support: Floats
    by_target: Floats
    weights: Floats


def vote(motions: Motions, source: Rows, target: Rows, indices: NDArray[np.int64], shares: Floats) -> Votes:
    """Let the targets of each source vote on its pose.

    Every target j asks for the motion g that maximizes its fit ``c_j(g)``. The winner maximizes ``sum w_j c_j(g)`` with
    ``w_j = share_j^(1/2) (1 - max c_j)^-3``: transport says which targets are alike, their fit how alike they are.

    Parameters
    ----------
    motions
        What the pose is sought among.
    source, target
        Coefficients (n, c) and (m, c).
    indices, shares
        (n, k) targets of each source and their share of its mass; an index of -1 is no target.
    """
    products = motions.products(source, target, indices)
    by_target = motions.locate(products, motions.fits(products).argmax(axis=-1))
    counts = (indices >= 0) & (shares > 0) & products.any(axis=-1)
    misfits = np.maximum(1.0 - by_target.fits, _LEAST_MISFIT)
    weights = np.where(counts, np.sqrt(shares) * misfits**_MISFIT_POWER, 0.0)
    totals = weights.sum(axis=1, keepdims=True)
    weights /= np.where(totals > 0, totals, 1.0)

    pooled = np.einsum("nk,nkp->np", weights, products).astype(np.float32)
    values = motions.fits(pooled)
    best = motions.locate(pooled, values.argmax(axis=-1))
    apart = motions.separation(best.motions[:, None], motions.grid) > TOLERANCE
    second = motions.locate(pooled, np.where(apart, values, -np.inf).argmax(axis=-1))
    agrees = motions.separation(best.motions[:, None], by_target.motions) <= TOLERANCE
    margins = np.log(np.maximum(1.0 - second.fits, _LEAST_MISFIT) / np.maximum(1.0 - best.fits, _LEAST_MISFIT))
    known = totals > 0
    return Votes(
        motions=np.where(known, best.motions, np.nan),
        runner_up=np.where(known, second.motions, np.nan),
        fits=np.where(known[:, 0], best.fits, np.nan),
        widths=np.where(known[:, 0], best.widths, np.nan),
        margins=np.where(known[:, 0], margins, np.nan),
        support=(agrees * weights).sum(axis=1),
        agreement=(agrees & counts).sum(axis=1) / np.maximum(counts.sum(axis=1), 1),
        by_target=np.where(counts[..., None], by_target.motions, np.nan),
        weights=weights,
    )
