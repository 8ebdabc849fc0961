"""Options of the program and of the library's functions: frozen dataclasses with type, default, help text and check.

``match(...)`` and ``compare(...)`` build them from their keyword arguments, the command line parses into them,
``run.json`` stores them (:meth:`Options.to_json`) and ``--config`` reads them.
"""

import dataclasses
import math
import numbers
import operator
import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from bispectral_ot import checks
from bispectral_ot.errors import InputError
from bispectral_ot.memory import parse_bytes

COMPARISON, TESTS, SOLVER, IMAGES, MEMORY, OUTPUT = "Comparison", "Tests", "Solver", "Images", "Memory", "Output"
_Position = Literal["mirrors", "quarter turns", "rotation", "translation", "scale"]
Change = Literal["nothing", "intensity", "sharpness", _Position, "all of these"]
_ROOT_HELP = "Folder with the official IDX files of named datasets; nothing is downloaded."
_COUNT, _NATURAL = "of at least 1", "of at least 0"
_BOUNDS = {"of at least": operator.ge, "of at most": operator.le, "above": operator.gt, "below": operator.lt}
_NOUNS = {bool: "True or False", int: "an integer", float: "a number", str: "a string", Path: "a path"}


@dataclass(frozen=True)
class Option:
    """Field of a class of options."""

    help: str
    panel: str = COMPARISON  # heading in the command line's help
    shown: str | None = None  # words for the default, if it is None
    bounds: str = ""  # of a number, such as "above 0 and below 1"
    parse: Callable[[Any], object] | None = None  # raises an InputError for values that it cannot read
    flag: tuple[str, ...] = ()  # names on the command line, if not made from the field's name
    cli: bool = True  # whether the command line has the option
    name: str = ""
    default: Any = None
    kinds: tuple[Any, ...] = ()  # permitted types
    choices: tuple[str, ...] = ()  # permitted strings

    def check(self, value: Any) -> None:
        """Raise an :class:`InputError` unless ``value`` has one of the types and is within the bounds."""
        if value is None and type(None) in self.kinds:
            return
        if isinstance(value, str) and self.choices:
            if not (self.name == "features" and checks.is_feature_expression(value)):
                checks.check_choice(self.name.replace("_", " "), value, self.choices)
        elif Any not in self.kinds:
            bounds = (each.rsplit(" ", 1) for each in self.bounds.split(" and ") if each)
            within = (_BOUNDS[words](value, float(number)) for words, number in bounds)
            if not any(_is_a(value, kind) for kind in self.kinds) or not all(within):
                nouns = [*map(repr, self.choices), *(noun for kind, noun in _NOUNS.items() if kind in self.kinds)]
                expected = " ".join(filter(None, (" or ".join(nouns), self.bounds)))
                raise InputError(f"{self.name} must be {expected}, got {value!r}.")
            if self.parse is not None:
                self.parse(value)


def _is_a(value: Any, kind: Any) -> bool:
    if kind is bool or isinstance(value, bool) or not isinstance(kind, type):
        return kind is bool and isinstance(value, bool)
    if kind is float:
        return isinstance(value, numbers.Real) and math.isfinite(float(value))
    if kind is int:
        return isinstance(value, numbers.Integral)
    return isinstance(value, (str, Path) if kind is Path else kind)


def option(default: Any, help: str, panel: str = COMPARISON, **constraint: Any) -> Any:
    """Field of a class of options; ``constraint`` are further attributes of :class:`Option`."""
    return dataclasses.field(default=default, metadata={"option": Option(help, panel, **constraint)})


@dataclass(frozen=True, kw_only=True)
class Options:
    """Base class: checks every field by its type and its :class:`Option` when an instance is made."""

    # Fields of a single call that do not affect its results: run.json does not store them.
    _of_the_call: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for each in self.fields():
            each.check(getattr(self, each.name))

    @classmethod
    @cache
    def fields(cls) -> tuple[Option, ...]:
        """Options in the order of their definition."""
        hints, found = get_type_hints(cls), []
        for each in dataclasses.fields(cls):
            hint = hints[each.name]
            kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
            choices = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
            known = {"name": each.name, "default": each.default, "kinds": kinds, "choices": tuple(choices)}
            found.append(dataclasses.replace(each.metadata["option"], **known))
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        """Values as JSON types; objects, which only Python can pass, as their ``repr``."""
        found = {}
        for name, value in vars(self).items():
            if name not in self._of_the_call:
                plain = str(value) if isinstance(value, Path) else value
                found[name] = plain if isinstance(plain, (type(None), bool, int, float, str)) else repr(plain)
        return found


@dataclass(frozen=True, kw_only=True)
class FeatureOptions(Options):
    """Features and distance by which images are compared."""

    symmetry: checks.Symmetry | Any = option(
        None,
        "Transformations to ignore. rotation-reflection and d4 (quarter turns) include mirror images; so3 is for "
        "signals on the sphere, so3-shapes for 3-D shapes.",
        shown="rotation, or that of the features",
    )
    features: checks.FeatureName | Any = option(
        None,
        "Feature extractor. ring-bispectrum reproduces the paper; best-rotation compares pairs at their best rotation. "
        "To match vectors, give one file for each set, as A.npy,B.npy (.npz, .parquet, .h5, .h5ad; FILE:NAME names an "
        "array), or the name vectors if the sets themselves are such files.",
        shown="bispectrum of the symmetry",
    )
    metric: checks.Metric | None = option(None, "Distance between features.", shown="that of the features")
    intensity: checks.Intensity | None = option(
        None, "Brightness and contrast: ignore or keep them; affine also ignores the colour balance.", shown="ignore"
    )
    pca: int | None = option(None, "Reduce the features to N principal components: faster, approximate.", bounds=_COUNT)
    normalize: bool = option(True, "Standardize pixels to mean 0 and standard deviation 1 over all sets.", cli=False)


@dataclass(frozen=True, kw_only=True)
class MatchOptions(FeatureOptions):
    """Options of :func:`~bispectral_ot.match`."""

    encoder: str | None = option(None, "Encoder to combine with the features: Python module:name, or an .onnx file.")
    marginals: checks.Marginals | None = option(
        None,
        "Mass of the targets: balanced (fixed), estimated (each class gets its estimated proportion), relaxed (free).",
        shown="estimated if TARGET has labels, else relaxed",
    )
    metric_learning: Literal["auto", "none"] = option(
        "auto", "Learned metric: auto (fitted to the labels of TARGET, if it has any) or none."
    )
    solver: checks.SolverName | Any = option("sinkhorn", "Solver of the transport problem.", SOLVER)
    reg: float | None = option(
        None, "Entropic regularization, relative to the largest cost.", SOLVER, shown="0.01", bounds="above 0"
    )
    tol: float | None = option(None, "Tolerance on the marginal error.", SOLVER, shown="1e-4", bounds="above 0")
    max_iter: int | None = option(None, "Maximum number of iterations.", SOLVER, bounds=_COUNT)
    storage: checks.Storage | None = option(None, "Storage of the distances.", MEMORY, cli=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.solver == "exact" and self.reg is not None:
            raise InputError("reg has no effect on the exact solver, which does not regularize; leave it out.")
        own = [name for name in ("reg", "tol", "max_iter") if getattr(self, name) is not None]
        if own and not isinstance(self.solver, str):
            raise InputError(f"{own[0]} is an option of the solver; give it to {type(self.solver).__name__} instead.")

    @property
    def extractor(self) -> Any:
        """Features, combined with the encoder if there is one."""
        if self.encoder is None:
            return self.features
        if not checks.is_feature_expression(self.encoder):
            raise InputError(f"encoder must be module:name or an .onnx file, got {self.encoder!r}.")
        return f"{self.features or 'bispectrum'}+{self.encoder}"


@dataclass(frozen=True, kw_only=True)
class CompareOptions(FeatureOptions):
    """Options of :func:`~bispectral_ot.compare`."""

    labels: bool = option(False, "Add the distance between classes to the cost.")
    reg: float = option(0.13, "Entropic regularization, relative to the 99% quantile of costs.", bounds="above 0")
    permutations: int = option(0, "Permutations per pair (0: none, or 199 for symmetry tests).", TESTS, bounds=_NATURAL)
    bootstrap: int = option(0, "Bootstrap samples per pair (0: no interval).", TESTS, bounds=_NATURAL)
    symmetry_tests: bool = option(False, "Test which changes explain the difference of each pair.", TESTS)
    level: float = option(0.05, "Significance level.", TESTS, bounds="above 0 and below 1")
    test_images: int = option(2000, "Maximum number of images per set in tests.", TESTS, bounds="of at least 2")
    seed: int = option(0, "Random seed.", IMAGES, bounds=_NATURAL)


@dataclass(frozen=True, kw_only=True)
class UprightOptions(Options):
    """Options of ``upright`` in addition to those of its match."""

    symmetry: Literal["rotation", "rotation-reflection", "d4", "translation"] = option(
        "rotation", "Transformations to undo; d4: quarter turns and mirror images."
    )
    features: checks.FeatureName | Any = option(None, "Feature extractor.", shown="bispectrum of the symmetry")
    pose_neighbours: int = option(10, "Number of targets that vote on the pose of a source.", bounds=_COUNT)
    fill: float | None = option(None, "Value of new corners, as in the file.", OUTPUT, shown="median of the border")
    expand: bool = option(False, "Enlarge the canvas so that no corner is cut off.", OUTPUT)
    include_ambiguous: bool = option(False, "Also rotate images whose pose is ambiguous.", OUTPUT)


@dataclass(frozen=True, kw_only=True)
class ImageOptions(Options):
    """Reading and preparation of datasets."""

    root: Path | None = option(None, _ROOT_HELP, IMAGES)
    resize: str | None = option(
        None,
        "Scale images to fit into this size, such as 32 or 32x48, and fill the rest with background.",
        IMAGES,
        shown="the size of the images, at most 128",
        parse=checks.parse_size,
    )
    frame: str = option(
        "auto",
        "Placement of images: canvas (the whole image), picture (inside a margin that an editor filled), content "
        "(centred, at one size), common (one scale in pixels); or one for each set: picture,canvas. auto: without "
        "filled margins; match and upright also choose the frame in which both sets agree best.",
        IMAGES,
        parse=checks.parse_frames,
    )
    grey: bool = option(False, "Convert colour images to grey.", IMAGES)
    center: bool = option(False, "Move the content of each image to its centre.", IMAGES)
    limit: int | None = option(None, "Use at most N random images of each set.", IMAGES, bounds=_COUNT)
    seed: int = option(0, "Random seed.", IMAGES, bounds=_NATURAL)


@dataclass(frozen=True, kw_only=True)
class ReadOptions(ImageOptions):
    """Reading and preparation of the datasets of ``compare``."""

    split: checks.Split = option("train", "Split of datasets that have several.", IMAGES)


@dataclass(frozen=True, kw_only=True)
class PairOptions(ImageOptions):
    """Reading and preparation of source and target of ``match``."""

    source_split: checks.Split = option("train", "Split of the source, if it has several.", IMAGES)
    target_split: checks.Split = option("train", "Split of the target, if it has several.", IMAGES)
    split_halves: bool = option(False, "Match disjoint halves of one set, given as both SOURCE and TARGET.", IMAGES)
    rotate_source: bool = option(False, "Rotate every source by a random angle, for a trial.", IMAGES)
    corrections: Path | None = option(None, "CSV file exported from a report; its sources become targets.", IMAGES)


@dataclass(frozen=True, kw_only=True)
class RuntimeOptions(Options):
    """Memory and machines."""

    working_memory: str | None = option(
        None, "Memory budget, such as 4GB.", MEMORY, shown="70% of the free memory", parse=parse_bytes
    )
    scheduler: str | None = option(
        None,
        "Dask cluster: address of its scheduler (tcp://host:8786), or local:4 for 4 processes on this machine.",
        MEMORY,
        shown="threads of this machine",
    )


@dataclass(frozen=True, kw_only=True)
class PrintOptions(Options):
    """Printed output of a command."""

    _of_the_call: ClassVar[tuple[str, ...]] = ("overwrite", "as_json", "quiet", "dry_run")

    as_json: bool = option(False, "Print results as JSON and nothing else.", OUTPUT, flag=("--json",))
    quiet: bool = option(False, "Print warnings, alarms and errors only.", OUTPUT, flag=("--quiet", "-q"))


@dataclass(frozen=True, kw_only=True)
class OutputOptions(PrintOptions):
    """Printed output of a run, and whether it may replace an earlier one."""

    overwrite: bool = option(False, "Replace an earlier run in the output folder.", OUTPUT)


@dataclass(frozen=True, kw_only=True)
class ReportOptions(OutputOptions):
    """Figures and page of a run."""

    report: bool = option(False, "Write report.html, an interactive page for the browser.", OUTPUT)
    figures: bool = option(True, "Draw figures.", OUTPUT)


@dataclass(frozen=True, kw_only=True)
class MatchOutputOptions(ReportOptions):
    """Files of a match."""

    poses: bool = option(False, "Estimate the pose of each source; written to poses.csv.", OUTPUT)
    n_matches: int = option(5, "Number of targets per source in matches.csv.", OUTPUT, bounds=_COUNT)
    dry_run: bool = option(False, "Estimate memory and time from a trial with few images; write nothing.", OUTPUT)


@dataclass(frozen=True, kw_only=True)
class PredictOptions(Options):
    """Options of ``predict``."""

    encoder: str | None = option(None, "Encoder of the match, if it had one; its code is loaded only if it is named.")
    n_matches: int = option(5, "Number of targets per image in matches.csv.", OUTPUT, bounds=_COUNT)
    poses: bool = option(False, "Estimate the pose of each image; written to poses.csv.", OUTPUT)
    split: checks.Split = option("train", "Split of a dataset that has several.", IMAGES)
    root: Path | None = option(None, _ROOT_HELP, IMAGES)
    seed: int = option(0, "Random seed.", IMAGES, bounds=_NATURAL)


@dataclass(frozen=True, kw_only=True)
class MonitorOptions(Options):
    """Options of ``monitor``."""

    run_length: int = option(200, "Expected number of batches between false alarms.", TESTS, bounds="of at least 2")
    allowing_for: Change = option("nothing", "Change that does not raise an alarm.", TESTS)
    resize: str | None = option(None, "Size of the images, such as 32 or 32x48.", IMAGES, parse=checks.parse_size)
    grey: bool = option(False, "Convert colour images to grey.", IMAGES)
    frame: str = option(
        "auto", "canvas, or auto: without margins that an editor filled.", IMAGES, parse=checks.parse_frames
    )
    seed: int = option(0, "Random seed.", IMAGES, bounds=_NATURAL)


@dataclass(frozen=True, kw_only=True)
class DemoOptions(Options):
    """Options of ``demo``."""

    seed: int = option(0, "Random seed of the split and of the angles.", IMAGES, bounds=_NATURAL)
    per_class: int = option(250, "Digits of each class.", IMAGES, bounds="of at least 1 and of at most 250")
