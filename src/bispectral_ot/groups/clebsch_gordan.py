"""Clebsch-Gordan matrices: the change of basis that splits the product of two irreps."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from bispectral_ot.groups.irreps import Irrep


def clebsch_gordan_matrix(first: Irrep, second: Irrep, parts: list[tuple[Irrep, int]]) -> NDArray[np.complex128]:
    """Return the unitary C with ``first(g) (x) second(g) = C [(+)_t t(g)] C^H`` for every g.

    Parameters
    ----------
    first, second : ndarray of shape (order, d, d)
        Two irreps.
    parts : list of (irrep, multiplicity)
        The irreps in their product; a repeated irrep fills consecutive blocks of columns.

    Returns
    -------
    ndarray of shape (d1 * d2, d1 * d2)
        Real where all irreps are. Each block's phase makes its largest entry positive.
    """
    order, d1, d2 = len(first), first.shape[1], second.shape[1]
    blocks = []
    for part, multiplicity in parts:
        dimension = part.shape[1]
        # projector onto the vectors that transform like the first basis vector of `part`
        weighted = (part[:, 0, 0].conj() * dimension / order)[:, None] * first.reshape(order, -1)
        projector = (weighted.T @ second.reshape(order, -1)).reshape(d1, d1, d2, d2)
        projector = projector.transpose(0, 2, 1, 3).reshape(d1 * d2, d1 * d2)
        basis = scipy.linalg.qr(projector, mode="economic", pivoting=True)[0][:, :multiplicity]
        for start in basis.T.reshape(-1, d1, d2):
            # carry the first basis vector to the others with the group itself
            moved = first @ start @ second.transpose(0, 2, 1)
            block = (part[:, :, 0].conj().T * (dimension / order)) @ moved.reshape(order, -1)
            largest = block.flat[np.argmax(np.abs(block) > 0.999 * np.abs(block).max())]
            blocks.append(block.T * (np.abs(largest) / largest))
    return np.ascontiguousarray(np.concatenate(blocks, axis=1))
