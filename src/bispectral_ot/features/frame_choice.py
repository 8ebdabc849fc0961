"""Choice of frames: the placement of images that makes two sets alike, judged by the features of samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.frames import MOST_CLEAR, FrameChoice, Images, Placement, SetGeometry, common_pixels
from bispectral_ot.errors import DataWarning, warn
from bispectral_ot.features.fitted import FittedFeatures
from bispectral_ot.features.registry import FeatureSpec

Placements = tuple[Placement, ...]
_SIDE = 64  # at which samples are compared, at most
# Splits of the target for the null distribution of the divergence, and the quantile that counts as agreement.
_SPLITS, _LEVEL = 64, 0.95
# Another frame than the whole canvas must explain this fraction of the divergence, and recognise the target's own
# labels nearly as well.
_LEAST_GAIN, _LEAST_RECOGNISED = 0.5, 0.8
# Fraction of the images of a set that must have a filled margin.
_SOME_MARGINS = 0.25
# Divergence, relative to the mean distance within the target, from which on no frame fits.
_NO_FIT = 0.15


@dataclass(frozen=True)
class Evidence:
    """Agreement of two sets in one frame.

    Attributes
    ----------
    divergence : energy distance of source and target over the mean distance within the target; about 0 for two samples
        of one distribution, and slightly negative at times
    null : its 95 % quantile between random halves of the target, for samples of the size of the target
    nearest : mean distance from a source to its nearest target, over that from a target to its nearest other target
    recognised : fraction of the targets whose nearest other target has their label; NaN without labels
    noise : standard error of ``recognised``
    """

    divergence: float
    null: float
    nearest: float
    recognised: float
    noise: float = 0.0


class JudgedFrames(FrameChoice):
    """Frames of a source and a target; ``"auto"`` takes the one in which they agree best, as features tell.

    Parameters
    ----------
    frame
        As for :class:`~bispectral_ot.datasets.frames.FrameChoice`.
    spec
        Function that returns features and metric of the match.
    """

    def __init__(self, frame: str | Sequence[str], spec: Callable[[], FeatureSpec]) -> None:
        super().__init__(frame)
        self.spec = spec

    def looks_at(self, sets: Sequence[Any]) -> bool:
        """Whether images must be looked at: for ``"auto"``, only features that ignore rotations can judge."""
        if not super().looks_at(sets):
            return False
        return not self.is_automatic or str(self._quiet_spec().symmetry).startswith("rotation")

    def _quiet_spec(self) -> FeatureSpec:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # the match itself will warn
            return self.spec()

    def automatic(self, samples: Sequence[Images], names: Sequence[str], labels: Any) -> Placements:
        """Whole canvas, unless another frame brings the sets clearly closer."""
        spec = self._quiet_spec()
        whole = (Placement(),) * len(samples)
        found = {"canvas": judge(samples, whole, spec, labels)}
        tried: dict[str, Placements] = {"canvas": whole}
        if found["canvas"].divergence > found["canvas"].null:
            tried = candidates([SetGeometry.of(images) for images in samples])
            others = (name for name in tried if name != "canvas")
            found |= {name: judge(samples, tried[name], spec, labels) for name in others}
        chosen = choose(found)
        self.settings["frame_divergence"] = {name: each.divergence for name, each in found.items()}
        if found[chosen].divergence > _NO_FIT:
            warn(
                f"{' and '.join(names)} look different in every frame ({_listed(found)}; 0 where two sets agree): they "
                "were made in different ways, or show different things. Choose a frame with frame=... (--frame).",
                DataWarning,
            )
        elif chosen != "canvas":
            warn(
                f"frame {chosen!r} was chosen, {_MEANINGS[chosen]}: {' and '.join(names)} differ less in it than on "
                f"their whole canvas ({_listed(found)}; 0 where two sets agree). To choose yourself, use frame=... "
                "(--frame).",
                DataWarning,
            )
        return tried[chosen]


_MEANINGS = {
    "picture": "the picture inside a margin that an editor filled",
    "common": "one scale in pixels for all images",
    "content": "content centred and brought to one size",
}


def _listed(found: dict[str, Evidence]) -> str:
    return ", ".join(f"{name} {each.divergence:.3f}" for name, each in found.items())


def judge(samples: Sequence[Images], placements: Placements, spec: FeatureSpec, labels: Any = None) -> Evidence:
    """Evidence for placements of a source and a target sample; ``labels`` are those of the target sample."""
    side = min(_SIDE, *(max(max(image.shape[:2]) for image in images) for images in samples))
    sets = [
        Dataset(np.concatenate([placement(image[None], (side, side)) for image in images]))
        for images, placement in zip(samples, placements, strict=True)
    ]
    with warnings.catch_warnings(), runtime.running(progress=lambda *_: None):
        warnings.simplefilter("ignore")  # the match itself will warn
        with FittedFeatures(sets, spec) as space:
            rows = np.concatenate([np.asarray(part) for part in space.features])
            distances = space.feature_map.distances_within(rows, spec.metric)
    if spec.metric == "sqeuclidean":
        distances = np.sqrt(distances)
    return evidence(distances, len(sets[0]), labels)


def evidence(distances: NDArray[np.float64], n_source: int, labels: Any = None) -> Evidence:
    """Evidence from the distances between all images of both samples, the sources first."""
    within = distances[n_source:, n_source:]
    unit = _mean_within(within) or 1.0
    between = float(distances[:n_source, n_source:].mean())
    divergence = (2 * between - _mean_within(distances[:n_source, :n_source]) - _mean_within(within)) / unit
    random, half, null = np.random.default_rng(0), len(within) // 2, []
    for _ in range(_SPLITS):
        order = random.permutation(len(within))
        one, other = order[:half], order[half:]
        parts = (_mean_within(within[np.ix_(part, part)]) for part in (one, other))
        null.append((2 * float(within[np.ix_(one, other)].mean()) - sum(parts)) / unit)
    recognised, nearest, noise = float("nan"), 1.0, 0.0
    if len(within) > 1:
        apart = within + np.diag(np.full(len(within), np.inf))
        nearest = float(distances[:n_source, n_source:].min(axis=1).mean()) / (float(apart.min(axis=1).mean()) or 1.0)
    if labels is not None and len(within) > 1:
        names = np.asarray(labels)
        recognised = float((names[apart.argmin(axis=1)] == names).mean())
        noise = float(np.sqrt(recognised * (1 - recognised) / len(names)))
    # halves have twice the variance of the whole
    return Evidence(divergence, float(np.quantile(null, _LEVEL)) / 2, nearest, recognised, noise)


def _mean_within(distances: NDArray[np.float64]) -> float:
    """Mean distance of two different elements."""
    n = len(distances)
    return float(distances.sum()) / (n * (n - 1)) if n > 1 else 0.0


def candidates(geometries: Sequence[SetGeometry]) -> dict[str, Placements]:
    """Placements to try for some sets, by the name of the frame; the whole canvas comes first."""
    tried: dict[str, Placements] = {"canvas": (Placement(),) * len(geometries)}
    pictures = [geometry.pictures > _SOME_MARGINS for geometry in geometries]
    if any(pictures):
        tried["picture"] = tuple(
            Placement("picture", geometry.picture_side) if has else Placement()
            for geometry, has in zip(geometries, pictures, strict=True)
        )
    if len(np.unique(np.concatenate([geometry.sides for geometry in geometries]))) > 1:
        tried["common"] = (Placement("common", common_pixels(geometries)),) * len(geometries)
    if all(geometry.clear > MOST_CLEAR for geometry in geometries):
        tried["content"] = (Placement("content"),) * len(geometries)
    return tried


def choose(tried: dict[str, Evidence]) -> str:
    """Name of the frame to take: the whole canvas, unless another one brings the sets clearly closer.

    Of several that do so equally well, as far as halves of the target can tell, it is the one in which sources have the
    nearest targets.
    """
    canvas = tried["canvas"]
    better = {}
    for name, found in tried.items():
        loses = found.recognised < _LEAST_RECOGNISED * canvas.recognised - found.noise  # False without labels
        gain = canvas.divergence - found.divergence
        if name != "canvas" and not loses and gain >= max(canvas.null, found.null, _LEAST_GAIN * canvas.divergence):
            better[name] = found
    if not better:
        return "canvas"
    least = min(found.divergence for found in better.values())
    equal = {name: found for name, found in better.items() if found.divergence <= max(least, 0.0) + found.null}
    return min(equal or better, key=lambda name: better[name].nearest)
