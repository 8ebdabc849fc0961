"""Figures of poses and of comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import drawing
from bispectral_ot.comparing import Comparison
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.pictures import Pictures, as_shown
from bispectral_ot.drawing import Tile
from bispectral_ot.poses import MotionArray, Poses, turn_image
from bispectral_ot.sampling import class_by_class

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_poses(
    poses: Poses, source: Dataset, target: Dataset, *, n: int = 12, ambiguous: bool = False, ax: Axes | None = None
) -> Axes:
    """Sources as they are, in their pose, in that of the runner-up (``ambiguous``), and beside a target."""
    rows = np.flatnonzero(poses.found & (poses.ambiguous == ambiguous))
    if ambiguous:
        chosen = rows[np.argsort(np.nan_to_num(poses.scores[rows]))][:n]
    else:
        chosen = rows[class_by_class(None if source.labels is None else source.labels[rows], len(rows))[:n]]
    if not len(chosen):
        chosen = np.arange(min(1, len(poses)))
    sources, targets = Pictures(source), Pictures(target)
    tiles: list[list[Tile | None]] = []
    for i in chosen.tolist():
        line: list[Tile | None] = [Tile(sources[i]), Tile(_moved(sources, poses, i), _pose_words(poses, i))]
        line += [Tile(_moved(sources, poses.runner_up, i))] * ambiguous
        tiles.append([*line, Tile(targets[int(poses.targets[i, poses.weights[i].argmax()])])])
    heads = ("source", "best pose", "runner-up", "target") if ambiguous else ("source", "upright", "target")
    title = "Least certain poses" if ambiguous else "Sources in their poses"
    return drawing.draw_tiles(ax, tiles, title=title, heads=heads)


def _moved(pictures: Pictures, motions: MotionArray, i: int) -> NDArray[np.float64]:
    """Picture of a source in its pose; signals on the sphere as they are."""
    image = pictures.dataset.images[i]
    if motions.angles is not None:
        mirrored = motions.mirrored is not None and bool(motions.mirrored[i])
        shift = (0.0, 0.0) if motions.shifts is None else motions.shifts[i]
        return as_shown(turn_image(image, float(motions.angles[i]), mirrored=mirrored, shift=shift), pictures.limits)
    if motions.shifts is not None:
        return as_shown(np.roll(image, np.rint(motions.shifts[i]).astype(int), axis=(0, 1)), pictures.limits)
    if pictures.dataset.kind == "clouds":
        return Pictures(Dataset(motions.rotations[i].apply(image)[None], kind="clouds"))[0]
    return pictures[i]


def _pose_words(poses: Poses, i: int) -> str:
    if poses.angles is None:
        return ""
    doubt = f" ± {poses.uncertainty[i]:.0f}" if np.isfinite(poses.uncertainty[i]) and not poses.ambiguous[i] else ""
    mirror = "⇋ " if poses.mirrored is not None and poses.mirrored[i] else ""
    return f"{mirror}{poses.angles[i]:.0f}{doubt}°"


def _lengths(comparison: Comparison) -> NDArray[np.float64]:
    """Square roots of the distances, which are squared lengths; negative ones count as 0."""
    return np.asarray(np.sqrt(np.maximum(comparison.distances, 0.0)))


def tree_of_sets(comparison: Comparison) -> tuple[NDArray[np.float64], list[int]]:
    """Linkage (N - 1, 4) of average clustering, and its leaves in an order that puts near ones beside each other."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    tree = linkage(squareform(_lengths(comparison)), "average", optimal_ordering=True)
    return tree, leaves_list(tree).tolist()


def sets_on_plane(comparison: Comparison) -> tuple[NDArray[np.float64], float, NDArray[np.float64]]:
    """Positions (N, 2) of the sets, their stress, and the radii (N,) by which sampling alone moves each of them."""
    positions, stress = scale_to_plane(_lengths(comparison))
    # two samples of a set are apart by the reference on average, each by half of it from the middle
    return positions, stress, np.sqrt(np.maximum(np.diag(comparison.references), 0)) / 2


def scale_to_plane(distances: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Positions (n, 2) by metric multidimensional scaling (SMACOF) of distances (n, n), and its stress-1.

    It starts from the classical solution, so the result does not depend on chance.
    """
    from sklearn.manifold import smacof

    if not distances.any():
        return np.zeros((len(distances), 2)), 0.0
    start = classical_scaling(distances, 2)
    positions, stress = smacof(distances, init=start, n_init=1, max_iter=200, eps=1e-5, normalized_stress=False)
    return positions, float(np.sqrt(stress / (0.5 * np.square(distances).sum())))


def classical_scaling(distances: NDArray[np.float64], dimensions: int) -> NDArray[np.float64]:
    """Positions (n, d) by classical multidimensional scaling: principal components of ``-1/2 J D^2 J``."""
    from scipy.linalg import eigh

    squares = -0.5 * np.square(distances)
    squares = squares - squares.mean(axis=0) - squares.mean(axis=1, keepdims=True) + squares.mean()
    count = len(distances)
    values, vectors = eigh(squares, subset_by_index=[max(0, count - dimensions), count - 1])
    found: NDArray[np.float64] = np.zeros((count, dimensions))
    found[:, : len(values)] = (vectors * np.sqrt(values.clip(0)))[:, ::-1]
    found *= np.where(found.sum(axis=0) < 0, -1.0, 1.0)  # signs of eigenvectors are arbitrary
    return found
