"""Unitary irreducible representations of any finite group, from its Cayley table, and Clebsch-Gordan matrices.

A real symmetric matrix that commutes with the regular representation and is otherwise random has the real
irreducible subspaces as its eigenspaces. A real irrep is of real, complex or quaternionic type (its character
has squared norm 1, 2 or 4); in the last two cases a random antisymmetric matrix that commutes with it splits
it into two halves over the complex numbers.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from bispectral_ot.groups.table import IntArray, conjugacy_classes

Irrep = NDArray[np.complex128]

TOLERANCE = 1e-11  # largest homomorphism defect that is accepted
ATTEMPTS = 40  # each draws another random matrix: eigenvalues of different eigenspaces may fall close together


def decompose(table: IntArray, inverse: IntArray) -> list[Irrep]:
    """All irreps of a group, each once, shapes (order, d, d); the trivial one first, then by dimension.

    Irreps of real type come as real matrices (imaginary parts exactly zero); those of complex type come in
    pairs of exact conjugates. The result is the same in every run.
    """
    for attempt in range(ATTEMPTS):
        irreps = _attempt(table, inverse, np.random.default_rng(attempt))
        if irreps is not None and defect(irreps, table) < TOLERANCE:
            return _in_order(irreps)
    raise ArithmeticError(f"no decomposition of this group of order {len(table)} reaches {TOLERANCE}.")


def defect(irreps: list[Irrep], table: IntArray) -> float:
    """How far the matrices are from a full set of unitary irreps; infinite where some are missing.

    Products ``rho(a) rho(b) = rho(a * b)`` are compared for all a and a few b.
    """
    order = len(table)
    if sum(irrep.shape[1] ** 2 for irrep in irreps) != order:
        return np.inf
    some = np.random.default_rng(0).integers(order, size=8)
    worst = 0.0
    for irrep in irreps:
        products = irrep[:, None] @ irrep[some]
        unit = irrep @ irrep.conj().transpose(0, 2, 1) - np.eye(irrep.shape[1])
        worst = max(worst, float(np.abs(products - irrep[table[:, some]]).max()), float(np.abs(unit).max()))
    return worst


def _attempt(table: IntArray, inverse: IntArray, rng: np.random.Generator) -> list[Irrep] | None:
    """One decomposition, or None where two eigenspaces could not be separated."""
    order = len(table)
    weights = rng.standard_normal(order)
    commuting = (weights + weights[inverse])[table[inverse]]  # entry (x, y) depends on x^-1 y only
    values, vectors = scipy.linalg.eigh(commuting)
    steps = np.diff(values) > 1e-9 * np.abs(values).max()
    spaces = np.split(vectors, np.flatnonzero(steps) + 1, axis=1)

    class_of = np.empty(order, dtype=np.int64)
    classes = conjugacy_classes(table, inverse)
    for number, members in enumerate(classes):
        class_of[members] = number
    sizes = np.array([len(members) for members in classes])
    identity = int(table[0, inverse[0]])

    irreps: list[Irrep] = []
    seen: list[NDArray[np.float64]] = []
    for space in spaces:
        # the projector on an invariant subspace is a function of x^-1 y; its class means are the character
        projector = space @ space[identity]
        character = order * (np.bincount(class_of, projector) / sizes)[class_of]
        kind = round(float(character @ character) / order)
        if kind not in (1, 2, 4) or abs(character @ character / order - kind) > 1e-6:
            return None
        if any(abs(character @ other) > 0.5 * order for other in seen):
            continue
        seen.append(character)
        real = np.einsum("xi,gxj->gij", space, space[table[inverse]], optimize=True)
        irreps += [real.astype(np.complex128)] if kind == 1 else _split(real, conjugates=kind == 2, rng=rng)
    return irreps


def _split(real: NDArray[np.float64], *, conjugates: bool, rng: np.random.Generator) -> list[Irrep]:
    """The complex halves of a real irrep: two conjugate ones, or one that occurs twice."""
    dimension = real.shape[1]
    noise = rng.standard_normal((dimension, dimension))
    antisymmetric = np.mean(real @ (noise - noise.T) @ real.transpose(0, 2, 1), axis=0)
    _, vectors = np.linalg.eigh(1j * antisymmetric)
    half = vectors[:, dimension // 2 :]
    irrep = half.conj().T @ real @ half
    return [irrep, irrep.conj()] if conjugates else [irrep]


def _in_order(irreps: list[Irrep]) -> list[Irrep]:
    """Trivial first, then by dimension, then by character: the numbering is the same in every run."""

    def rank(irrep: Irrep) -> tuple[object, ...]:
        character = np.round(np.trace(irrep, axis1=1, axis2=2), 6)
        return irrep.shape[1], tuple(-character.real), tuple(-character.imag)

    return sorted(irreps, key=rank)


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
