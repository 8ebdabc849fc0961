"""Choice of frames: the placement of images in which samples of two sets agree best."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from bispectral_ot import runtime
from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.frames import MANY_MARGINS, MOST_CLEAR, FrameChoice, Images, Labels, Placement, SetGeometry
from bispectral_ot.errors import DataWarning, warn
from bispectral_ot.features.fitted import FittedFeatures
from bispectral_ot.features.registry import FeatureSpec

Placements = tuple[Placement, ...]
_SIDE = 64  # at which samples are compared, at most
FEWEST = 8  # images of each side from which on features judge
_REG, _ITERATIONS = 0.02, 100  # of the plan, in mean distances within the target; 0.01 to 0.05 choose alike
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
    score: float  # kept classes; without labels, the mean log of the largest share of a source that has one target


class JudgedFrames(FrameChoice):
    """Frames of a source and a target; ``"auto"`` takes the one in which they agree best."""

    def __init__(self, frame: str | Sequence[str], spec: Callable[[], FeatureSpec]) -> None:
        super().__init__(frame)
        self.spec = spec
        self.settings["frame_is_automatic"] = self.is_automatic

    def looks_at(self, sets: Sequence[Any]) -> bool:
        """Whether the choice needs images: for ``"auto"``, only features that ignore rotations can compare frames."""
        asked = super().looks_at(sets)
        return asked and (not self.is_automatic or str(self._quiet_spec().symmetry).startswith("rotation"))

    def _quiet_spec(self) -> FeatureSpec:
        with warnings.catch_warnings(action="ignore", category=DataWarning):  # the match itself will warn
            return self.spec()

    def automatic(self, samples: Sequence[Images], names: Sequence[str], labels: Labels) -> Placements:
        """The frame with the best score; the whole canvas comes first."""
        geometries = [SetGeometry.of(images) for images in samples]
        # margins of both sets would match each other
        if min(geometry.pictures for geometry in geometries) > MANY_MARGINS or min(map(len, samples)) < FEWEST:
            return super().automatic(samples, names, labels)
        spec = self._quiet_spec()
        tried = candidates(geometries)
        if labels is not None and (len(np.unique(labels)) < 2 or mates(labels).any(axis=1).sum() < FEWEST):
            labels = None
        found = {name: judge(samples, names, placements, spec, labels) for name, placements in tried.items()}
        chosen = max(found, key=lambda name: round(found[name].score, 2))  # the first of equal ones
        self.settings["frame_divergence"] = {name: each.divergence for name, each in found.items()}
        self.settings["frame_score"] = {name: each.score for name, each in found.items()}
        listed = ", ".join(f"{name} {each.divergence:.3f}" for name, each in found.items())
        both = " and ".join(names)
        least = min(self.settings["frame_divergence"].values())
        advice = "Choose a frame with frame=... (--frame)."
        why = "sources have the clearest counterparts"
        if labels is not None:
            shares = ", ".join(f"{name} {each.score:.0%}" for name, each in found.items())
            why = f"targets that are matched to sources and back return to their class most often ({shares})"
        if chosen != "canvas":
            said = f"in this frame, {why}; divergence of {both}: {listed}"
            warn(f"frame {chosen!r} was chosen ({_MEANINGS[chosen]}): {said}. {advice}")
        if least > _NO_FIT:
            said = "they were made in different ways, or show different things"
            warn(f"{both} differ in every frame (divergence {listed}): {said}. {advice}")
        elif least < found[chosen].divergence / 1.5 and found[chosen].divergence > _SMALL:
            said = f"although {both} differ less in another one (divergence {listed})"
            warn(f"frame {chosen!r} is used, {said}: in this frame, {why}. {advice}")
        return tried[chosen]


def judge(
    samples: Sequence[Images], names: Sequence[str], placements: Placements, spec: FeatureSpec, labels: Labels = None
) -> Evidence:
    """Evidence for placements of a source and a target sample, which may have labels."""
    side = min(_SIDE, *(max(max(image.shape[:2]) for image in images) for images in samples))
    sets = [
        Dataset(np.concatenate([placement(image[None], (side, side)) for image in images]), name=name)
        for images, name, placement in zip(samples, names, placements, strict=True)
    ]
    quiet = warnings.catch_warnings(action="ignore")  # the match itself will warn
    with quiet, runtime.running(progress=lambda *_: None):
        space = FittedFeatures(sets, spec)
        rows = np.concatenate([np.asarray(part) for part in space.features])
        distances = space.feature_map.distances_within(rows, spec.metric)
    return evidence(np.sqrt(distances) if spec.metric == "sqeuclidean" else distances, len(sets[0]), labels)


def evidence(distances: NDArray[np.float64], n_source: int, labels: Labels = None) -> Evidence:
    """Evidence from the distances between all images of both samples, the sources first, and labels of the targets."""
    between, unit = distances[:n_source, n_source:], _mean_within(distances[n_source:, n_source:]) or 1.0
    divergence = (2 * float(between.mean()) - _mean_within(distances[:n_source, :n_source]) - unit) / unit
    plan = log_plan(between / unit)
    clarity = float((plan.max(axis=1) - logsumexp(plan, axis=1)).mean())
    return Evidence(divergence, clarity if labels is None else kept_classes(plan, labels))


def log_plan(costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of the balanced entropic plan of costs.

    It is balanced: otherwise a target that is near to all sources would seem to be the counterpart of all.
    """
    kernel = -costs / _REG
    rows, columns = np.zeros((len(costs), 1)), np.zeros(costs.shape[1])
    for _ in range(_ITERATIONS):
        rows = logsumexp(kernel + columns, axis=1, keepdims=True)
        columns = -logsumexp(kernel - rows, axis=0)
    return np.asarray(kernel - rows + columns)


def kept_classes(plan: NDArray[np.float64], labels: NDArray[Any]) -> float:
    """Mean probability that the way from a target to the sources and on to *another* target ends in its class.

    It is high if sources agree with targets and features separate the classes. The target itself is excluded:
    properties of single images, such as their size in pixels, may be unrelated to their class.
    """
    best = np.arange(plan.shape[1]) == plan.argmax(axis=1)[:, None]
    same, back = mates(labels), softmax(plan, axis=1)
    # targets that are not the best one of a source leave a half or more of it; without the best, others share the rest
    ends = (back @ same) / np.maximum(1 - back, 0.5)
    ends[best] = (softmax(np.where(best, -np.inf, plan), axis=1) @ same)[best]
    return float((softmax(plan, axis=0) * ends).sum(axis=0)[same.any(axis=1)].mean())


def mates(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether two images are different ones of the same class (n, n)."""
    return (labels[:, None] == labels) & ~np.eye(len(labels), dtype=bool)


def _mean_within(distances: NDArray[np.float64]) -> float:
    return float(distances.sum()) / max(1, len(distances) * (len(distances) - 1))  # without the diagonal


def candidates(geometries: Sequence[SetGeometry]) -> dict[str, Placements]:
    """Placements to try for some sets, by the name of the frame; the whole canvas comes first."""
    tried: dict[str, Placements] = {"canvas": (Placement(),) * len(geometries)}
    cut = tuple(geometry.cut for geometry in geometries)
    if max(geometry.pictures for geometry in geometries) > MANY_MARGINS:  # they are no part of the images
        tried = {"picture": cut}
    elif cut != tried["canvas"]:
        tried["picture"] = cut
    pixels = min(float(geometry.sides.max()) for geometry in geometries)
    if len(np.unique(np.concatenate([geometry.sides for geometry in geometries]))) > 1:
        tried["common"] = tuple(geometry.placement("common", pixels) for geometry in geometries)
    if all(geometry.clear > MOST_CLEAR for geometry in geometries):
        tried["content"] = tuple(geometry.placement("content", pixels) for geometry in geometries)
    return tried
