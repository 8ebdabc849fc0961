"""Choice of frames: the placement of images that makes two sets alike, judged by the features of samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.frames import MOST_CLEAR, FrameChoice, Images, Placement, SetGeometry
from bispectral_ot.errors import DataWarning, warn
from bispectral_ot.features.fitted import FittedFeatures
from bispectral_ot.features.registry import FeatureSpec

Placements = tuple[Placement, ...]
_SIDE = 64  # at which samples are compared, at most
_SPLITS, _LEVEL = 64, 0.95  # of the target for the null distribution, and the quantile that counts as agreement
# A frame other than the whole canvas must explain this fraction of the divergence, or bring sources nearer to targets
# by so many standard errors; and recognise the target's own labels nearly as well.
_LEAST_GAIN, _LEAST_ERRORS, _LEAST_RECOGNISED = 0.5, 2.5, 0.7
_SMALL = 0.01  # divergence that is no reason for a warning
_EXPLAINED = 0.75  # fraction of the divergence that is enough by itself; the rest may be compression or interpolation
_SOME_MARGINS = 0.25  # fraction of the images of a set that must have a filled margin
_NO_FIT = 0.15  # divergence from which on no frame fits
_MEANINGS = {
    "picture": "the picture inside a filled margin",
    "common": "one scale in pixels for all images",
    "content": "content centred and brought to one size",
}


class Evidence(NamedTuple):
    """Agreement of two sets in one frame."""

    divergence: float  # energy distance over the mean distance within the target; about 0 where two sets agree
    null: float  # its 95 % quantile between random halves of the target, for samples of the size of the target
    nearest: NDArray[np.float64]  # log distance of each source to its nearest target, over that between targets
    recognised: float = float("nan")  # fraction of the targets whose nearest other target has their label
    noise: float = 0.0  # standard error of ``recognised``


class JudgedFrames(FrameChoice):
    """Frames of a source and a target; ``"auto"`` takes the one in which the features of ``spec()`` agree best."""

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

    def automatic(self, samples: Sequence[Images], names: Sequence[str], labels: Any) -> Placements:
        """Whole canvas, unless another frame brings the sets clearly closer."""
        spec, tried = self._quiet_spec(), candidates([SetGeometry.of(images) for images in samples])
        found = {name: judge(samples, placements, spec, labels) for name, placements in tried.items()}
        chosen = choose(found)
        self.settings["frame_divergence"] = {name: each.divergence for name, each in found.items()}
        listed = ", ".join(f"{name} {each.divergence:.3f}" for name, each in found.items())
        if found[chosen].divergence > _NO_FIT:
            warn(
                f"{' and '.join(names)} differ in every frame (divergence {listed}): they were made in different ways, "
                "or show different things. Choose a frame with frame=... (--frame).",
                DataWarning,
            )
        elif (
            chosen == "canvas"
            and min(each.divergence for each in found.values()) < found[chosen].divergence / 2 - _SMALL
        ):
            warn(
                f"the whole canvas is compared, although {' and '.join(names)} differ less in another frame "
                f"(divergence {listed}): in that one, sources are not nearer to targets, or labels are harder to "
                "recognize. Choose one with frame=... (--frame).",
                DataWarning,
            )
        elif chosen != "canvas":
            warn(
                f"frame {chosen!r} was chosen ({_MEANINGS[chosen]}): {' and '.join(names)} differ less in it "
                f"(divergence {listed}). Choose another with frame=... (--frame).",
                DataWarning,
            )
        return tried[chosen]


def judge(samples: Sequence[Images], placements: Placements, spec: FeatureSpec, labels: Any = None) -> Evidence:
    """Evidence for placements of a source and a target sample; ``labels`` are those of the target sample."""
    side = min(_SIDE, *(max(max(image.shape[:2]) for image in images) for images in samples))
    sets = [
        Dataset(np.concatenate([placement(image[None], (side, side)) for image in images]))
        for images, placement in zip(samples, placements, strict=True)
    ]
    quiet = warnings.catch_warnings(action="ignore")  # the match itself will warn
    with quiet, runtime.running(progress=lambda *_: None), FittedFeatures(sets, spec) as space:
        rows = np.concatenate([np.asarray(part) for part in space.features])
        distances = space.feature_map.distances_within(rows, spec.metric)
    return evidence(np.sqrt(distances) if spec.metric == "sqeuclidean" else distances, len(sets[0]), labels)


def evidence(distances: NDArray[np.float64], n_source: int, labels: Any = None) -> Evidence:
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
    if len(within) < 2:
        return Evidence(divergence, limit, np.zeros(n_source))
    apart = within + np.diag(np.full(len(within), np.inf))
    ratios = between.min(axis=1) / (float(np.median(apart.min(axis=1))) or 1.0)
    recognised, noise = float("nan"), 0.0
    if labels is not None:
        recognised = float((np.asarray(labels)[apart.argmin(axis=1)] == np.asarray(labels)).mean())
        noise = float(np.sqrt(recognised * (1 - recognised) / len(within)))
    return Evidence(divergence, limit, np.log(np.maximum(ratios, 1e-3)), recognised, noise)


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
    """Name of the frame to take: the whole canvas, unless another one brings the sets clearly closer.

    A frame does so where it explains three quarters of the divergence, or lowers it and brings sources nearer to their
    nearest targets: by a paired test, unless it halves the divergence. Of several with about equal divergence, it is
    the one with the nearest targets.
    """
    canvas, better = tried["canvas"], {}
    for name, found in tried.items():
        loses = found.recognised < _LEAST_RECOGNISED * canvas.recognised - found.noise  # False without labels
        gain, nearer = canvas.divergence - found.divergence, canvas.nearest - found.nearest
        error = float(nearer.std()) / np.sqrt(len(nearer))
        halves = gain >= max(canvas.null, found.null, _LEAST_GAIN * canvas.divergence)
        agrees = halves and found.divergence <= found.null + (1 - _EXPLAINED) * canvas.divergence
        closer = nearer.mean() > (0 if halves else _LEAST_ERRORS * error)
        if name != "canvas" and not loses and gain > 0 and (agrees or closer):
            better[name] = found
    if not better:
        return "canvas"
    least = max(0.0, min(found.divergence for found in better.values()))
    equal = {name: found for name, found in better.items() if found.divergence <= least + found.null}
    return min(equal, key=lambda name: float(equal[name].nearest.mean()))
