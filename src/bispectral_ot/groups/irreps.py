"""Unitary irreducible representations of a finite group from its Cayley table, and Clebsch-Gordan matrices.

A random real symmetric matrix that commutes with the regular representation has the real irreducible subspaces as its
eigenspaces. A real irrep is of real, complex or quaternionic type (its character has squared norm 1, 2 or 4); in the
last two cases a random antisymmetric matrix that commutes with it splits it into two halves over the complex numbers.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
Irrep = NDArray[np.complex128]

_TOLERANCE = 1e-11  # largest homomorphism defect that is accepted
_ATTEMPTS = 40  # random matrices that are tried: eigenvalues of different eigenspaces may fall close together


def decompose(table: IntArray, inverse: IntArray, classes: list[IntArray]) -> list[Irrep]:
    """All irreps of a group, each once, shapes (order, d, d); the trivial one first, then by dimension and character.

    Irreps of real type are real matrices (imaginary parts exactly zero); those of complex type come in pairs of exact
    conjugates. The result is the same in every run.
    """
    for attempt in range(_ATTEMPTS):
        irreps = _attempt(table, inverse, classes, np.random.default_rng(attempt))
        if irreps is not None and _defect(irreps, table) < _TOLERANCE:
            return sorted(irreps, key=_rank)
    raise ArithmeticError(f"no decomposition of this group of order {len(table)} reaches {_TOLERANCE}.")


def _rank(irrep: Irrep) -> tuple[object, ...]:
    character = np.round(np.trace(irrep, axis1=1, axis2=2), 6)
    return irrep.shape[1], tuple(-character.real), tuple(-character.imag)


def _defect(irreps: list[Irrep], table: IntArray) -> float:
    """Largest error of unitarity and of ``rho(a) rho(b) = rho(a * b)`` for some b; infinite if irreps are missing."""
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


def _attempt(
    table: IntArray, inverse: IntArray, classes: list[IntArray], rng: np.random.Generator
) -> list[Irrep] | None:
    """One decomposition, or None where two eigenspaces could not be separated."""
    order = len(table)
    weights = rng.standard_normal(order)
    commuting = (weights + weights[inverse])[table[inverse]]  # entry (x, y) depends on x^-1 y only
    values, vectors = scipy.linalg.eigh(commuting)
    steps = np.diff(values) > 1e-9 * np.abs(values).max()
    spaces = np.split(vectors, np.flatnonzero(steps) + 1, axis=1)

    sizes = np.array([len(members) for members in classes])
    class_of = np.empty(order, dtype=np.int64)
    class_of[np.concatenate(classes)] = np.repeat(np.arange(len(classes)), sizes)
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


def clebsch_gordan_matrix(first: Irrep, second: Irrep, parts: list[tuple[Irrep, int]]) -> NDArray[np.complex128]:
    """Unitary C (d1 * d2, d1 * d2) with ``first(g) (x) second(g) = C [(+)_t t(g)] C^H`` for every g.

    ``parts`` has the irreps of the product and their multiplicities; a repeated irrep fills consecutive blocks of
    columns. C is real where all irreps are, and the phase of each block makes its largest entry positive.
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
