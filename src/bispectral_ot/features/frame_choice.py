"""Choice of frames: the placement of images in which sources have the clearest counterparts, judged by samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from bispectral_ot import runtime
from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.frames import MANY_MARGINS, MOST_CLEAR, FrameChoice, Images, Placement, SetGeometry
from bispectral_ot.errors import DataWarning, warn
from bispectral_ot.features.fitted import FittedFeatures
from bispectral_ot.features.registry import FeatureSpec

Placements = tuple[Placement, ...]
_SIDE = 64  # at which samples are compared, at most
_FEWEST = 8  # images of each side from which on features judge
_SPLITS, _LEVEL = 64, 0.95  # of the target for the null distribution, and the quantile that counts as agreement
_REG, _ITERATIONS = 0.02, 100  # of the plan, in mean distances within the target; 0.01 to 0.05 choose alike
_LEAST_ERRORS = 2.0  # standard errors by which a plan must be clearer, where the sets do not differ less
_SOME_MARGINS = 0.25  # fraction of the images of a set that must have a filled margin
# Divergences: no reason for a warning, and twice what JPEG compression of quality 30 makes, from where no frame fits.
_SMALL, _NO_FIT = 0.01, 0.03
_MEANINGS = {
    "picture": "the picture inside a filled margin",
    "common": "one scale in pixels for all images",
    "content": "content centred and brought to one size",
}


class Evidence(NamedTuple):
    """Agreement of two sets in one frame."""

    divergence: float  # energy distance over the mean distance within the target; about 0 where two sets agree
    null: float  # its 95 % quantile between random halves of the target, for samples of the size of the target
    clarity: NDArray[np.float64]  # log of the largest share of each source that a balanced plan sends to one target


class JudgedFrames(FrameChoice):
    """Frames of a source and a target; ``"auto"`` takes the one in which sources have the clearest counterparts."""

    def __init__(self, frame: str | Sequence[str], spec: Callable[[], FeatureSpec]) -> None:
        super().__init__(frame)
        self.spec = spec

    def looks_at(self, sets: Sequence[Any]) -> bool:
        """Whether images must be looked at: for ``"auto"``, only features that ignore rotations can judge."""
        asked = super().looks_at(sets)
        return asked and (not self.is_automatic or str(self._quiet_spec().symmetry).startswith("rotation"))

    def _quiet_spec(self) -> FeatureSpec:
        with warnings.catch_warnings(action="ignore", category=DataWarning):  # the match itself will warn
            return self.spec()

    def automatic(self, samples: Sequence[Images], names: Sequence[str]) -> Placements:
        """Whole canvas, unless sources have clearer counterparts in another frame."""
        geometries = [SetGeometry.of(images) for images in samples]
        # margins of both sets would match each other
        if min(geometry.pictures for geometry in geometries) > MANY_MARGINS or min(map(len, samples)) < _FEWEST:
            return super().automatic(samples, names)
        spec, tried = self._quiet_spec(), candidates(geometries)
        found = {name: judge(samples, names, placements, spec) for name, placements in tried.items()}
        chosen = choose(found)
        self.settings["frame_divergence"] = {name: each.divergence for name, each in found.items()}
        listed, both = ", ".join(f"{name} {each.divergence:.3f}" for name, each in found.items()), " and ".join(names)
        least, advice = min(each.divergence for each in found.values()), "Choose a frame with frame=... (--frame)."
        if chosen != "canvas":
            why = f"in it sources have the clearest counterparts (divergence of {both}: {listed})"
            warn(f"frame {chosen!r} was chosen ({_MEANINGS[chosen]}): {why}. {advice}", DataWarning)
        if found[chosen].divergence > _NO_FIT:
            why = "they were made in different ways, or show different things"
            warn(f"{both} differ in every frame (divergence {listed}): {why}. {advice}", DataWarning)
        elif chosen == "canvas" and least < found[chosen].divergence / 2 - _SMALL:
            why = f"although {both} differ less in another frame (divergence {listed})"
            warn(f"the whole canvas is compared, {why}: sources have clearer counterparts. {advice}", DataWarning)
        return tried[chosen]


def judge(samples: Sequence[Images], names: Sequence[str], placements: Placements, spec: FeatureSpec) -> Evidence:
    """Evidence for placements of a source and a target sample."""
    side = min(_SIDE, *(max(max(image.shape[:2]) for image in images) for images in samples))
    sets = [
        Dataset(np.concatenate([placement(image[None], (side, side)) for image in images]), name=name)
        for images, name, placement in zip(samples, names, placements, strict=True)
    ]
    quiet = warnings.catch_warnings(action="ignore")  # the match itself will warn
    with quiet, runtime.running(progress=lambda *_: None), FittedFeatures(sets, spec) as space:
        rows = np.concatenate([np.asarray(part) for part in space.features])
        distances = space.feature_map.distances_within(rows, spec.metric)
    return evidence(np.sqrt(distances) if spec.metric == "sqeuclidean" else distances, len(sets[0]))


def evidence(distances: NDArray[np.float64], n_source: int) -> Evidence:
    """Evidence from the distances between all images of both samples, the sources first."""
    between, within = distances[:n_source, n_source:], distances[n_source:, n_source:]
    unit = _mean_within(within) or 1.0
    divergence = (2 * float(between.mean()) - _mean_within(distances[:n_source, :n_source]) - unit) / unit
    random, half, null = np.random.default_rng(0), len(within) // 2, []
    for _ in range(_SPLITS):
        order = random.permutation(len(within))
        one, other = order[:half], order[half:]
        parts = (_mean_within(within[np.ix_(part, part)]) for part in (one, other))
        null.append((2 * float(within[np.ix_(one, other)].mean()) - sum(parts)) / unit)
    limit = float(np.quantile(null, _LEVEL)) / 2  # halves have twice the variance of the whole
    return Evidence(divergence, limit, clarity(between / unit))


def clarity(costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log of the largest share of each row of the balanced entropic plan of costs; 0 where it has one target only.

    Marginals make it a fair measure: a target near to all sources, because the sets differ, is no counterpart of all.
    """
    kernel = -costs / _REG
    columns = np.zeros(costs.shape[1])
    for _ in range(_ITERATIONS):
        rows = logsumexp(kernel + columns, axis=1, keepdims=True)
        columns = -logsumexp(kernel - rows, axis=0)
    plan = kernel + columns
    return np.asarray(plan.max(axis=1) - logsumexp(plan, axis=1))


def _mean_within(distances: NDArray[np.float64]) -> float:
    return float(distances.sum()) / max(1, len(distances) * (len(distances) - 1))  # without the diagonal


def candidates(geometries: Sequence[SetGeometry]) -> dict[str, Placements]:
    """Placements to try for some sets, by the name of the frame; the whole canvas comes first."""
    tried: dict[str, Placements] = {"canvas": (Placement(),) * len(geometries)}
    cut = tuple(geometry.cut(_SOME_MARGINS) for geometry in geometries)
    if cut != tried["canvas"]:
        tried["picture"] = cut
    if len(np.unique(np.concatenate([geometry.sides for geometry in geometries]))) > 1:
        pixels = min(float(geometry.sides.max()) for geometry in geometries)
        tried["common"] = (Placement("common", pixels),) * len(geometries)
    if all(geometry.clear > MOST_CLEAR for geometry in geometries):
        tried["content"] = (Placement("content"),) * len(geometries)
    return tried


def choose(tried: dict[str, Evidence]) -> str:
    """Name of the frame with the clearest counterparts of sources.

    Clearer than the canvas by a paired test, or at all where the sets differ less in it; of these, frames in which the
    sets differ as little as in any.
    """
    canvas, clear = tried["canvas"], {"canvas": float(tried["canvas"].clarity.mean())}
    for name, found in tried.items():
        gain, noise = canvas.divergence - found.divergence, max(canvas.null, found.null)
        clearer = found.clarity - canvas.clarity
        error = float(clearer.std()) / np.sqrt(len(clearer))
        if gain > -noise and clearer.mean() > (0.0 if gain > noise else _LEAST_ERRORS * error):
            clear[name] = float(found.clarity.mean())
    least = min((tried[name] for name in clear), key=lambda found: found.divergence)
    # by more than the noise of a difference of two
    gaps = {name: tried[name].divergence - max(0.0, least.divergence) for name in clear}
    alike = [name for name in clear if gaps[name] <= np.hypot(tried[name].null, least.null)]
    return max(alike or clear, key=lambda name: clear[name])
