"""Predictor: labels, matches and poses of new images from the potentials of a solved match."""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pandas import DataFrame

from bispectral_ot import runtime
from bispectral_ot.costs import Cost
from bispectral_ot.datasets import Dataset, load
from bispectral_ot.datasets.dataset import KINDS
from bispectral_ot.datasets.formats.array_files import read_vectors
from bispectral_ot.datasets.frames import Placement, SetGeometry
from bispectral_ot.datasets.load import as_datasets, list_set, sampled
from bispectral_ot.datasets.transforms import blank_sources
from bispectral_ot.drawing import frame_html
from bispectral_ot.engines import Threads
from bispectral_ot.errors import InputError, warn
from bispectral_ot.features import FeatureMap
from bispectral_ot.features.encoders import MissingEncoderError
from bispectral_ot.features.fitted import check_sizes
from bispectral_ot.features.frame_choice import FEWEST
from bispectral_ot.matching.class_model import ClassModel, RidgeRegression
from bispectral_ot.matching.outliers import OutlierReference, OutlierScores
from bispectral_ot.matching.source_classes import ProportionEstimate, SourceClasses
from bispectral_ot.poses import Poses, estimate_poses, find_motions
from bispectral_ot.store import read_record, write_record
from bispectral_ot.transport import EntropicCoupling

if TYPE_CHECKING:
    from bispectral_ot.matching.result import Match

# Number of targets that vote on the pose of a new image, as in Match.poses.
VOTERS = 10
# Attributes of a predictor and of its class model that a file holds as they are.
_STORED = ("potential", "reg", "scale", "tol", "settings", "feature_map", "practice", "outliers")
_CLASSES = ("model", "estimate", "offsets", "odds", "least")
_FRAME = ("frame", "frame_pixels", "frame_masked")  # settings: fields of a Placement for each side


class TopMatches(NamedTuple):
    """Best targets of each source (n, k), the best first."""

    indices: NDArray[np.int64]  # positions in the target set; -1 if fewer targets receive mass
    weights: NDArray[np.float64]  # fraction of the source's mass; 0 where the index is -1

    def __repr__(self) -> str:
        n, k = self.indices.shape
        return f"TopMatches(indices and weights of the {k} best targets of each of {n:,} sources)"

    def to_frame(self) -> DataFrame:
        """Table with one row per pair: source, rank, target, weight."""
        sources, ranks = np.nonzero(self.indices >= 0)
        targets, weights = self.indices[sources, ranks], self.weights[sources, ranks]
        return DataFrame({"source": sources, "rank": ranks + 1, "target": targets, "weight": weights})

    def _repr_html_(self) -> str:
        return frame_html(self)


class Prediction(NamedTuple):
    """Labels, best targets and poses of new images."""

    matches: TopMatches
    details: DataFrame | None = None  # table of Match.labels; None (as the labels) if the target has no labels
    poses: Poses | None = None  # motions that align each image with its targets, if requested

    @property
    def labels(self) -> NDArray[Any] | None:
        """Labels (n,) of the images."""
        return None if self.details is None else self.details.label.to_numpy()

    @property
    def probabilities(self) -> NDArray[np.float64] | None:
        """Probabilities (n,) of the labels."""
        return None if self.details is None else self.details.probability.to_numpy()

    def __repr__(self) -> str:
        labels = "" if self.details is None else "labels and probabilities, "
        poses = "" if self.poses is None else ", poses"
        return f"Prediction({labels}best targets{poses} of {len(self.matches.indices):,} images)"

    def to_frame(self) -> DataFrame:
        """Table with one row per image: the columns of :meth:`Match.labels`, best target and its weight."""
        best = {"target": self.matches.indices[:, 0], "weight": self.matches.weights[:, 0]}
        return DataFrame(best) if self.details is None else self.details.assign(**best)

    def _repr_html_(self) -> str:
        return frame_html(self)


@dataclass(frozen=True, eq=False)
class Predictor:
    """Targets, potentials, feature map and class model of a match, applied to new sources.

    ``practice`` are best targets of some sources of the match, on which the precision of poses is calibrated.
    """

    target: Dataset
    potential: NDArray[np.float64] = field(repr=False)
    reg: float
    scale: float
    tol: float
    feature_map: FeatureMap
    settings: dict[str, Any]
    practice: TopMatches
    target_features: NDArray[np.float32] = field(repr=False)  # (m, columns)
    classes: SourceClasses | None = field(default=None, repr=False)
    outliers: OutlierReference | None = field(default=None, repr=False)

    def read(self, images: Any, *, split: str = "train", root: Any = None, seed: int = 0) -> Dataset:
        """New images in the size, frame and colours of the match; arrays are not placed if that used whole canvases."""
        target, is_name = self.target, isinstance(images, (str, Path))
        if target.kind == "vectors" and not isinstance(images, Dataset):
            return read_vectors(str(images)) if is_name else Dataset.from_vectors(images)
        listed = list_set(images, split, root, seed=seed)
        frame = Placement(*(self.settings[name][0] for name in _FRAME))
        if not is_name and listed.dataset is not None:
            if listed.dataset.placement or frame == Placement():
                return as_datasets((images, target), ("images", target.name))[0]
            if frame.frame == "common":
                warn("images in memory must have the scale in pixels of the match; if they were resized, give files.")
        if listed.files and (listed.kind == "clouds") != (target.kind in ("clouds", "volumes")):
            found = f"{listed.name!r} has {KINDS[listed.kind]}, but the match has {KINDS[target.kind]}"
            raise InputError(f"{found}; give files of the same kind.")
        if listed.files and listed.kind == "images" and self.settings.get("frame_is_automatic"):
            geometry = SetGeometry.of(sampled(listed, np.arange(len(listed)), False, 96)[0])
            unlike = geometry.part > 0 and abs(geometry.part - self.settings.get("picture_part", 0.0)) > 0.1
            if unlike and not frame.masked and frame.frame != "picture":
                advice = f"their labels may be wrong; give at least {FEWEST} such images together"
                if len(listed) >= FEWEST:  # single shapes may look like a picture
                    frame = geometry.cut if frame.frame == "canvas" else replace(frame, masked=True)
                    advice = "the filled parts are left out"
                found = f"most images of {listed.name!r} have a margin or corners filled by an editor"
                warn(f"{found}, unlike those of the match; {advice}.")
        options: dict[str, Any] = {"split": split, "root": root, "frame": frame, "seed": seed}
        if target.kind == "images":
            options |= {"resize": target.images.shape[1:3], "grey": target.images.ndim == 3}
        return load(images, **options, kind=None if target.kind in ("images", "vectors") else target.kind)

    def match(self, images: Dataset) -> "Match":
        """Match of ``images``, of equal mass, with the targets: ``P[i, j] ~ exp((g[j] - C[i, j]) / epsilon)``."""
        from bispectral_ot.matching.result import Match

        if images.kind == "images" and self.target.kind in ("clouds", "volumes"):
            images = replace(images, kind=self.target.kind)
        check_sizes([images, self.target], self.settings["symmetry"])
        with runtime.running():
            see, metric = self.feature_map, self.settings["metric"]
            rows = see(images.signals), self.target_features
            cost = Cost.from_distance(see.distance(*rows, metric), scale=self.scale)
            coupling = EntropicCoupling.of_potential(cost, self.potential, reg=self.reg, tol=self.tol)
            scores, far = None, np.zeros(len(images))
            if self.outliers is not None:
                apart = see.unlearned_distance(rows[0], rows[1][self.outliers.sample], metric)
                found, far = self.outliers.scores(apart)
                unknown = np.full(len(self.target), np.nan)
                scores = OutlierScores(found, unknown, far, unknown, self.outliers)
            classes = self.classes
            if classes is not None:
                classes = classes.of_others(see, cost, rows, blank_sources(images, self.target), far)
        return Match(
            coupling=coupling,
            source=images,
            target=self.target,
            settings=self.settings,
            feature_map=see,
            features=rows,
            classes=classes,
            outlier_scores=scores,
        )

    def poses(self, images: Dataset, top: TopMatches, *, seed: int = 0) -> Poses:
        """Poses of ``images`` from their best targets, calibrated on sources of the match."""
        motions = find_motions(self.settings["symmetry"], images.images, self.feature_map.transformer)
        sides = images.images, self.target.images
        with runtime.running():
            return estimate_poses(motions, sides, top, practice=self.practice, k=VOTERS, seed=seed)

    def predict(self, images: Dataset, *, k: int = 5, poses: bool = False, seed: int = 0) -> Prediction:
        """Labels, probabilities and best targets of images; see :meth:`Match.predict`."""
        found = self.match(images)
        details = None if self.target.labels is None else found.labels()
        posed = self.poses(images, found.top_matches(VOTERS), seed=seed) if poses else None
        return Prediction(found.top_matches(k), details, posed)

    def save(self, path: Path) -> None:
        """Write targets, potentials, feature map and class model to an ``.npz`` file with a checksum."""
        entries = {name: getattr(self, name) for name in _STORED}
        entries["target"] = replace(self.target, images=np.asarray(self.target.images), placement=None)
        if self.classes is not None:
            entries["classes"] = {name: getattr(self.classes, name) for name in _CLASSES}
        write_record(path, entries)

    @classmethod
    def load(cls, path: Path, *, encoder: str | Sequence[str] | None = None) -> Self:
        """Read and check a file that :meth:`save` wrote; ``encoder`` names the encoders that may be loaded."""
        try:
            with zipfile.ZipFile(path) as packed:
                size = sum(each.file_size for each in packed.infolist())
            if size > Threads().budget():
                raise ValueError(f"its arrays take {size / 1e9:.1f} GB, more than the memory budget")
            entries = read_record(path)
            entries["target"] = Dataset(**entries["target"])
            entries["feature_map"] = FeatureMap.from_state(entries["feature_map"], encoder=encoder)
            entries["practice"] = TopMatches(*entries["practice"])
            if entries["outliers"] is not None:
                entries["outliers"] = OutlierReference(*entries["outliers"])
            if "classes" in entries:
                classes = entries["classes"]
                if classes["model"]["ridge"] is not None:
                    classes["model"]["ridge"] = RidgeRegression(*classes["model"]["ridge"])
                classes["model"] = ClassModel(**classes["model"])
                classes["estimate"] = ProportionEstimate(**classes["estimate"])
                entries["classes"] = SourceClasses(**classes)
        except MissingEncoderError:
            raise
        except Exception as error:  # NumPy and zipfile raise many kinds of errors for damaged files
            raise InputError(f"{path} is damaged, or not the model of a match ({error}); match again.") from error
        with runtime.running():  # digits depend on the number of BLAS threads
            return cls(**entries, target_features=entries["feature_map"](entries["target"].signals))
