"""Poses of sources relative to their best targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.engines import Threads, row_blocks
from bispectral_ot.engines.engine import Block
from bispectral_ot.poses.calibration import Calibration
from bispectral_ot.poses.motions import Floats, MotionArray, Motions, Rows
from bispectral_ot.poses.votes import Votes, vote

# Sources whose best targets are turned and voted on, to learn how far votes can be trusted.
_PRACTICE = 2000
# Of fits at all motions of the grid, for the sources of a block.
_BLOCK_BYTES = 2**24
# Sources whose coefficients are made at a time.
_BATCH = 4096


@dataclass(frozen=True, eq=False)
class Poses:
    """How each source has to be moved to stand like its targets.

    Attributes
    ----------
    motions : (n,) the motions: mirrored left to right where ``mirrored``, turned counter-clockwise by ``angles``,
        moved by ``shifts``; or a rotation in space. NaN where a source has no target, or no content
    runner_up : (n,) the best motions that differ from these by more than 30 degrees
    by_target : (n, k) the motion that each target asks for by itself; NaN where there is none
    targets, weights : (n, k) positions of the targets (-1: none), and how much each counts
    fits : (n,) correlation with the targets after the motion, at most 1
    scores : (n,) probability that the pose is right, but for 30 degrees; NaN where it cannot be measured
    uncertainty : (n,) degrees, or pixels for shifts; nine of ten poses that are not ambiguous are off by less
    ambiguous : (n,) whether the score is below 0.75: the runner-up may as well be right, or the targets disagree
    size : height and width of the images that were compared
    """

    motions: MotionArray
    runner_up: MotionArray
    by_target: MotionArray
    targets: NDArray[np.int64]
    weights: Floats
    fits: Floats
    scores: Floats
    uncertainty: Floats
    ambiguous: NDArray[np.bool_]
    size: tuple[int, int]

    def __len__(self) -> int:
        """Number of sources."""
        return len(self.fits)

    def __repr__(self) -> str:
        found = np.isfinite(self.fits)
        return (
            f"Poses({len(self):,} sources, {self.ambiguous[found].sum():,} ambiguous, "
            f"{(~found).sum():,} without a pose; {self._precision()})"
        )

    def _precision(self) -> str:
        known = self.uncertainty[np.isfinite(self.uncertainty)]
        unit = "pixels" if self.angles is None and self.shifts is not None else "degrees"
        return f"uncertainty {np.median(known):.1f} {unit}" if len(known) else "uncertainty not known"

    @property
    def found(self) -> NDArray[np.bool_]:
        """Whether there is a pose: a target, and content on both sides (n,)."""
        return np.isfinite(self.fits)

    @property
    def angles(self) -> Floats | None:
        """Turns in degrees, counter-clockwise as displayed, in (-180, 180]; None for shifts and rotations in space."""
        return self.motions.angles

    @property
    def mirrored(self) -> NDArray[np.bool_] | None:
        """Whether a source is mirrored left to right before it is turned; None where the symmetry has no mirrors."""
        return self.motions.mirrored

    @property
    def shifts(self) -> Floats | None:
        """Pixels (n, 2) down and to the right; None where the symmetry has no translations."""
        return self.motions.shifts

    @property
    def rotations(self) -> Any:
        """``scipy.spatial.transform.Rotation`` of n rotations in space (``.as_matrix()``); None for flat images."""
        return self.motions.rotations

    def scale_of(self, size: tuple[int, ...]) -> float:
        """How many pixels of an image (height, width, ...) there are for one of the image that was compared."""
        return max(size[0] / self.size[0], size[1] / self.size[1])


def estimate_poses(
    motions: Motions,
    source: Any,
    target: Any,
    indices: NDArray[np.int64],
    shares: Floats,
    *,
    practice: tuple[NDArray[np.int64], Floats] | None = None,
    k: int | None = None,
    seed: int = 0,
) -> Poses:
    """Find the pose of each source relative to its best targets.

    Parameters
    ----------
    motions
        What poses are sought among.
    source, target
        Signals, n and m of them.
    indices, shares
        (n, at least k) the best targets of each source, best first, and their share of its mass; -1 is no target.
        With fewer than two, there is nothing to learn scores and uncertainties from.
    practice
        The same of other sources, from which scores and uncertainties are learnt instead.
    k
        Targets that vote; all by default.
    seed
        Of the turns that scores and uncertainties are learnt from.
    """
    known = (indices, shares) if practice is None else practice
    voters = np.unique(np.concatenate([indices.ravel(), known[0].ravel()]))
    voters = voters[voters >= 0]
    if len(voters) == 0:  # one row that nobody points to
        voters = np.zeros(1, dtype=np.int64)
    local, practised = (np.where(at >= 0, np.searchsorted(voters, at), -1) for at in (indices, known[0]))
    rows = motions.coefficients(target[voters])
    calibration = _practise(motions, target, rows, known[0], practised, known[1], seed=seed)
    parts = []
    for start in range(0, len(source), _BATCH):
        batch = slice(start, start + _BATCH)
        coefficients = motions.coefficients(source[batch])
        parts.append(_vote_in_blocks(motions, coefficients, rows, local[batch, :k], shares[batch, :k]))
        runtime.progress("poses", min(start + _BATCH, len(source)), len(source))
    votes = Votes(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    return Poses(
        motions=motions.by_name(votes.motions),
        runner_up=motions.by_name(votes.runner_up),
        by_target=motions.by_name(votes.by_target),
        targets=indices[:, :k],
        weights=votes.weights,
        fits=votes.fits,
        scores=calibration.scores(votes),
        uncertainty=calibration.uncertainty(votes) * motions.unit,
        ambiguous=calibration.ambiguous(votes),
        size=(source.shape[1], source.shape[2]),
    )


def practice_rows(indices: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sources that scores and uncertainties are learnt from: at most 2,000, evenly taken, with two targets each."""
    able = np.flatnonzero((indices[:, :2] >= 0).all(axis=1)) if indices.shape[1] > 1 else np.zeros(0, dtype=np.int64)
    return able[np.linspace(0, len(able) - 1, min(_PRACTICE, len(able))).astype(np.int64)]


def _practise(
    motions: Motions,
    target: Any,
    rows: Rows,
    indices: NDArray[np.int64],
    local: NDArray[np.int64],
    shares: Floats,
    *,
    seed: int,
) -> Calibration:
    """Let the best target of some sources, moved at random, be voted on by their other targets."""
    chosen = practice_rows(indices)
    if len(chosen) == 0:
        return Calibration(None)
    moved, truth = motions.practice(target[indices[chosen, 0]], seed=seed)
    coefficients = motions.coefficients(moved)
    votes = _vote_in_blocks(motions, coefficients, rows, local[chosen, 1:], shares[chosen, 1:])
    return Calibration.fit(votes, motions.separation(votes.motions, truth))


def _vote_in_blocks(motions: Motions, source: Rows, target: Rows, indices: NDArray[np.int64], shares: Floats) -> Votes:
    per_source = 8 * len(motions.grid) * (indices.shape[1] + 2)
    blocks = row_blocks(len(source), block_rows=max(1, _BLOCK_BYTES // per_source))
    parts = Threads().map(_vote_block, blocks, rows=[source, indices, shares], shared=[target, motions])
    return Votes(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _vote_block(
    _block: Block, source: Rows, indices: NDArray[np.int64], shares: Floats, target: Rows, motions: Motions
) -> Votes:
    return vote(motions, source, target, indices, shares)
