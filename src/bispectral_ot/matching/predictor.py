"""New sources for a solved match: their mass goes where the targets' potentials send it, without a new solve."""

from __future__ import annotations

import hashlib
import json
import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot import runtime
from bispectral_ot.costs import Cost
from bispectral_ot.datasets import Dataset
from bispectral_ot.datasets.frames import Placement
from bispectral_ot.errors import InputError
from bispectral_ot.features import FEATURES, FeatureMap, choose_features
from bispectral_ot.features.fitted import LinearMap
from bispectral_ot.files import to_json, whole_file
from bispectral_ot.matching.labels import SourceClasses
from bispectral_ot.matching.results import Prediction, TopMatches
from bispectral_ot.poses import Poses, estimate_poses, find_motions
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
    feature_map : fitted map from images to features
    settings : features, symmetry and metric by name
    practice : best targets of some of the sources that took part, from which the precision of poses is learned
    sample : images of both sides, and of moved targets, that the features were fitted to
    target_features : (m, columns) rows of the targets; extracted from their images if None
    classes : class model and proportions of the sources that took part; None without labels to learn them from
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
    target_features: NDArray[np.float32] | None = field(default=None, repr=False)
    classes: SourceClasses | None = field(default=None, repr=False)

    @property
    def placement(self) -> Placement:
        """Frame of the sources, by which new images are to be read: ``load(..., frame=predictor.placement)``."""
        return Placement(self.settings["frame"][0], self.settings["frame_pixels"][0])

    def match(self, images: Dataset) -> Match:
        """A match of ``images`` with the targets, each with the same mass.

        ``P[i, j]`` is proportional to ``exp((g[j] - C[i, j]) / epsilon)``, as for the sources that took part.
        """
        given, known = images.signals.shape, self.target.signals.shape
        if images.kind == "vectors" and given[1:] != known[1:]:
            raise InputError(f"the vectors have {given[1]} columns but those of the match {known[1]}.")
        if images.is_flat and (given[1:3] != known[1:3] or (*given, 1)[3] != (*known, 1)[3]):
            raise InputError(
                f"the images are {' x '.join(map(str, given[1:]))} but those of the match "
                f"{' x '.join(map(str, known[1:]))}; give them that size with load(..., resize=..., grey=...)."
            )
        rows, metric = self.feature_map(images.signals), self.settings["metric"]
        distance = self.feature_map.distance(rows, self._target_rows, metric)
        cost = Cost.from_distance(distance, scale=self.scale)
        coupling = EntropicCoupling.of_potential(cost, self.potential, reg=self.reg, tol=self.tol)
        from bispectral_ot.matching.result import Match, label_names

        classes = self.classes
        if classes is not None:
            codes = np.searchsorted(classes.model.classes, np.asarray(label_names(self.target)))
            classes = classes.of_others(self.feature_map, cost, rows, codes.astype(np.int64))
        return Match(
            coupling,
            source=images,
            target=self.target,
            source_labels=label_names(images),
            target_labels=label_names(self.target),
            settings=self.settings,
            feature_map=self.feature_map,
            features=(rows, self._target_rows),
            classes=classes,
        )

    def poses(self, images: Dataset, top: TopMatches, *, seed: int = 0) -> Poses:
        """Poses of ``images`` by their best targets, judged as those of the sources that took part."""
        motions = find_motions(self.settings["symmetry"], images.images, self.feature_map.transformer)
        sides = images.images, self.target.images
        return estimate_poses(motions, *sides, *top, practice=self.practice, k=VOTERS, seed=seed)

    def predict(self, images: Dataset, *, k: int = 5, poses: bool = False, seed: int = 0) -> Prediction:
        """Labels, probabilities and best targets of images; see :meth:`Match.predict`."""
        found = self.match(images)
        labels = probabilities = posed = None
        if self.target.labels is not None:
            labels, probabilities = found.label_details()[:2]
        if poses:
            posed = self.poses(images, found.top_matches(VOTERS), seed=seed)
        return Prediction(labels, probabilities, found.top_matches(k), posed)

    @cached_property
    def _target_rows(self) -> NDArray[np.float32]:
        return self.feature_map(self.target.signals) if self.target_features is None else self.target_features

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
            **{name: self.settings[name][0] for name in ("frame", "frame_pixels")},
            **{name: getattr(self, name) for name in ("reg", "scale", "tol")},
            **{name: getattr(self.feature_map, name) for name in ("mean", "std")},
            "intensity": getattr(self.feature_map.transformer, "intensity", None),
            **{name: getattr(self.target, name) for name in ("name", "classes", "files", "kind")},
        }
        learned = self.feature_map.learned
        arrays: dict[str, Any] = {
            "images": self.target.images,
            "labels": self.target.labels,
            "positions": self.target.positions,
            "vectors": self.target.vectors,
            "potential": self.potential,
            "projection": self.feature_map.projection,
            "practice_indices": self.practice.indices,
            "practice_weights": self.practice.weights,
            **{f"sample_{i}": side.signals for i, side in enumerate(self.sample)},
        }
        if learned is not None:
            arrays |= {"learned_basis": learned.basis, "learned_gains": np.append(learned.gains, learned.rest)}
        if self.classes is not None:
            arrays |= {f"classes_{name}": values for name, values in self.classes.arrays().items()}
        kept = {name: np.asarray(array) for name, array in arrays.items() if array is not None}
        kept["words"] = np.frombuffer(to_json(words).encode("utf-8", "backslashreplace"), dtype=np.uint8)
        kept["checksum"] = np.frombuffer(_checksum(kept), dtype=np.uint8)
        with whole_file(path) as partial, partial.open("wb") as file:
            np.savez_compressed(file, **kept)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> Predictor:
        """Read what :meth:`save` has written, and check it; features are fitted again, to the same images."""
        try:
            _check_size(path)
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            if arrays.pop("checksum").tobytes() != _checksum(arrays):
                raise ValueError("its checksum does not fit its content")
            words = json.loads(arrays["words"].tobytes())
            _check_values(words, arrays)
            about = {name: words[name] for name in ("name", "classes", "files", "kind")}
            vectors = arrays.get("vectors")
            target = Dataset(
                arrays["images"], arrays.get("labels"), positions=arrays["positions"], vectors=vectors, **about
            )
            sides = [arrays[name] for name in ("sample_0", "sample_1", "sample_2") if name in arrays]
            sample = [
                Dataset(each, kind=words["kind"]) if vectors is None else Dataset.from_vectors(each) for each in sides
            ]
            settings = {name: words[name] for name in ("features", "symmetry", "metric")}
            settings |= {name: [words[name]] * 2 for name in ("frame", "frame_pixels")}
            named = {name: words[name] for name in ("features", "symmetry", "metric", "intensity")}
            choice = choose_features(named.pop("features"), kind=words["kind"], **named)
            feature_map = FeatureMap.fit(choice.transformer, sample, words["mean"], words["std"])
            learned = None
            if "learned_basis" in arrays:
                gains = arrays["learned_gains"]
                learned = LinearMap(arrays["learned_basis"], gains[:-1], float(gains[-1]))
            of_classes = {name[8:]: values for name, values in arrays.items() if name.startswith("classes_")}
            return cls(
                target=target,
                potential=arrays["potential"],
                **{name: words[name] for name in ("reg", "scale", "tol")},
                feature_map=replace(feature_map, projection=arrays.get("projection"), learned=learned),
                settings=settings,
                practice=TopMatches(arrays["practice_indices"], arrays["practice_weights"]),
                sample=sample,
                classes=SourceClasses.from_arrays(of_classes) if of_classes else None,
            )
        except Exception as error:  # NumPy, zipfile and its decompressors raise whatever they like on a damaged file
            raise InputError(f"{path} is damaged, or not the model of a match ({error}); match again.") from error


def _checksum(arrays: dict[str, NDArray[Any]]) -> bytes:
    """SHA-256 of names, types, shapes and content of arrays."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(array.tobytes())
    return found.digest()


def _check_size(path: Path) -> None:
    """Refuse a file whose arrays would not fit into memory, by their headers."""
    total = 0
    with zipfile.ZipFile(path) as file:
        for name in file.namelist():
            with file.open(name) as member:
                version = np.lib.format.read_magic(member)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, kind = read(member)
                total += math.prod(shape) * kind.itemsize
    if total > runtime.current().budget:
        raise ValueError(f"its arrays take {total / 1e9:.1f} GB, more than the memory budget")


def _check_values(words: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Refuse numbers that no match has."""
    for name in ("reg", "scale", "tol", "std"):
        if not (np.isfinite(words[name]) and words[name] > 0):
            raise ValueError(f"{name} is {words[name]!r}")
    padded = ("sample_",) if words["kind"] == "clouds" else ()  # clouds of different sizes are filled up with nan
    for name, array in arrays.items():
        if name in ("potential", "images") or name.startswith(padded):
            continue
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{name} has entries that are not finite")
    m = len(arrays["images"])
    potential = arrays["potential"]
    known = potential[potential != -np.inf]
    # a potential spreads no wider than the cost, but for the weights
    if potential.shape != (m,) or not np.isfinite(known).all() or np.abs(known).max(initial=0) > 1e3 * words["scale"]:
        raise ValueError("its potentials are not those of a plan")
    indices = arrays["practice_indices"]
    if indices.size and not -1 <= indices.min() <= indices.max() < m:
        raise ValueError("best targets are named that it does not have")
