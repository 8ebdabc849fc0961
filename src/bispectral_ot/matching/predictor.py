"""New sources for a solved match: their mass goes where the targets' potentials send it, without a new solve."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import Cost
from bispectral_ot.datasets import Dataset
from bispectral_ot.errors import InputError
from bispectral_ot.files import to_json, whole_file
from bispectral_ot.invariants import FEATURES
from bispectral_ot.matching.outcomes import TopMatches
from bispectral_ot.poses import Poses, estimate_poses, find_motions
from bispectral_ot.progress import Progress, silent
from bispectral_ot.spaces import FeatureMap, choose_features, fit_sample, fitted
from bispectral_ot.transport import EntropicCoupling

if TYPE_CHECKING:
    from bispectral_ot.matching.result import Match

# Targets that vote on the pose of a new image, as they do in Match.poses.
VOTERS = 10


@dataclass(frozen=True, eq=False)
class Predictor:
    """Everything that a match knows about sources that it has not seen.

    Attributes
    ----------
    target : the targets, with their labels
    potential : (m,) of the targets in the solved plan
    reg, scale, tol : of that plan
    feature_map : how images become features
    settings : features, symmetry and metric by name
    practice : best targets of some of the sources that took part: what poses are worth is learnt from them
    sample : images of both sides that the features were fitted to
    positions : (m,) where the targets stand in the set that they were taken from, for reports; 0, 1, 2, ... if None
    """

    target: Dataset
    potential: NDArray[np.float64] = field(repr=False)
    reg: float
    scale: float
    tol: float
    feature_map: FeatureMap
    settings: dict[str, Any]
    practice: TopMatches
    sample: Sequence[Dataset]
    positions: NDArray[np.int64] | None = None

    def match(self, images: Dataset, *, progress: Progress = silent) -> Match:
        """A match of ``images`` with the targets, each with the same mass.

        ``P[i, j]`` is proportional to ``exp((g[j] - C[i, j]) / epsilon)``, as for the sources that took part.
        """
        given, known = images.images.shape, self.target.images.shape
        if images.is_flat and (given[1:3] != known[1:3] or (*given, 1)[3] != (*known, 1)[3]):
            raise InputError(
                f"the images are {' x '.join(map(str, given[1:]))} but those of the match "
                f"{' x '.join(map(str, known[1:]))}; give them that size with load(..., resize=..., grey=...)."
            )
        rows, metric = self.feature_map(images.images), self.settings["metric"]
        distance = self.feature_map.distance(rows, self._target_rows, metric)
        cost = Cost.from_distance(distance, scale=self.scale, progress=progress)
        coupling = EntropicCoupling.of_potential(cost, self.potential, reg=self.reg, tol=self.tol)
        from bispectral_ot.matching.result import Match, label_names

        return Match(
            coupling,
            source=images,
            target=self.target,
            source_labels=label_names(images),
            target_labels=label_names(self.target),
            settings=self.settings,
            feature_map=self.feature_map,
            progress=progress,
        )

    def poses(self, images: Dataset, top: TopMatches, *, seed: int = 0, progress: Progress = silent) -> Poses:
        """Poses of ``images`` by their best targets, judged as those of the sources that took part."""
        motions = find_motions(self.settings["symmetry"], images.images, self.feature_map.transformer)
        sides = images.images, self.target.images
        return estimate_poses(motions, *sides, *top, practice=self.practice, k=VOTERS, seed=seed, progress=progress)

    @cached_property
    def _target_rows(self) -> NDArray[np.float32]:
        return self.feature_map(self.target.images)

    def save(self, path: Path) -> None:
        """Write it to an ``.npz`` file, whole or not at all.

        The file has the targets, at most 4,096 images that the features were fitted to, and 8 bytes for each target,
        all of it compressed.
        """
        if self.settings["features"] not in FEATURES:
            raise InputError(
                f"features that are known by name can be kept, got {self.settings['features']}; name one of "
                f"{', '.join(FEATURES)}."
            )
        words = {
            **{name: self.settings[name] for name in ("features", "symmetry", "metric")},
            **{name: getattr(self, name) for name in ("reg", "scale", "tol")},
            **{name: getattr(self.feature_map, name) for name in ("mean", "std")},
            "intensity": getattr(self.feature_map.transformer, "intensity", None),
            **{name: getattr(self.target, name) for name in ("name", "classes", "files", "kind")},
        }
        arrays: dict[str, Any] = {
            "words": np.frombuffer(to_json(words).encode("utf-8", "backslashreplace"), dtype=np.uint8),
            "images": self.target.images,
            "potential": self.potential,
            "practice_indices": self.practice.indices,
            "practice_shares": self.practice.shares,
            **dict(zip(("source_sample", "target_sample"), (side.images for side in self.sample), strict=True)),
        }
        optional = {
            "labels": self.target.labels,
            "projection": self.feature_map.projection,
            "positions": self.positions,
        }
        arrays |= {name: array for name, array in optional.items() if array is not None}
        with whole_file(path) as partial, partial.open("wb") as file:
            np.savez_compressed(file, **arrays)

    @classmethod
    def load(cls, path: Path) -> Predictor:
        """Read what :meth:`save` has written; features are fitted again, to the same images."""
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            words = json.loads(arrays["words"].tobytes())
            about = {name: words[name] for name in ("name", "classes", "files", "kind")}
            target = Dataset(arrays["images"], arrays.get("labels"), **about)
            sides = (arrays[name] for name in ("source_sample", "target_sample"))
            sample = [Dataset(images, kind=words["kind"]) for images in sides]
            settings = {name: words[name] for name in ("features", "symmetry", "metric")}
            named = {name: words[name] for name in ("features", "symmetry", "metric", "intensity")}
            choice = choose_features(named.pop("features"), **named)
            unfitted = FeatureMap(choice.transformer, words["mean"], words["std"])
            transformer = fitted(choice.transformer, unfitted.normalized(fit_sample(sample)))
            weights, projection = transformer.feature_weights_, arrays.get("projection")
            return cls(
                target=target,
                potential=arrays["potential"],
                **{name: words[name] for name in ("reg", "scale", "tol")},
                feature_map=FeatureMap(transformer, words["mean"], words["std"], weights, projection),
                settings=settings,
                practice=TopMatches(arrays["practice_indices"], arrays["practice_shares"]),
                sample=sample,
                positions=arrays.get("positions"),
            )
        except Exception as error:  # NumPy, zipfile and its decompressors raise whatever they like on a damaged file
            raise InputError(f"{path} is damaged, or not the model of a match ({error}); match again.") from error
