"""Options of the program and of the library's front doors: frozen dataclasses with type, default, help text and check.

``match(...)`` and ``compare(...)`` build them from their keyword arguments, the command line parses into them,
``run.json`` stores them (:meth:`Options.to_json`) and ``--config`` reads them (:meth:`Options.from_json`).
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, Union, get_args, get_origin, get_type_hints

from bispectral_ot.checks import advise, parse_frames, parse_size
from bispectral_ot.errors import InputError
from bispectral_ot.literals import (
    FeatureName,
    Marginals,
    Metric,
    SolverName,
    Split,
    Storage,
    Symmetry,
    is_feature_expression,
)
from bispectral_ot.memory import parse_bytes

COMPARISON, TESTS, SOLVER, IMAGES, MEMORY, OUTPUT = "Comparison", "Tests", "Solver", "Images", "Memory", "Output"
SCHEDULER_HELP = "Dask cluster: address of its scheduler (tcp://host:8786), or local:4 for 4 processes on this machine."


@dataclass(frozen=True)
class Option:
    """Help text and constraint of a field; the metadata of its ``Annotated`` type.

    Attributes
    ----------
    help : help text of the command line
    panel : heading in the command line's help
    default : words for the default, where None stands for something
    at_least, at_most, above, below : bounds of a number
    parse : function that raises an :class:`InputError` for values that it cannot read
    flag : names of the option on the command line, where they are not made from the field's name
    cli : whether the command line has the option
    """

    help: str
    panel: str = COMPARISON
    default: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    parse: Callable[[Any], object] | None = None
    flag: tuple[str, ...] = ()
    cli: bool = True


class Field(NamedTuple):
    """A field of a class of options."""

    name: str
    annotation: Any
    option: Option
    default: Any


@dataclass(frozen=True, kw_only=True)
class Options:
    """Base class: checks every field by its type and its :class:`Option` when an instance is made."""

    # Fields that belong to one call and not to what it computes: run.json does not store them.
    _of_the_call: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for field in self.fields():
            check_option(field.name, getattr(self, field.name), field.annotation, field.option)

    @classmethod
    @cache
    def fields(cls) -> tuple[Field, ...]:
        """Fields with their types and options, in the order of their definition."""
        hints = get_type_hints(cls, include_extras=True)
        found = []
        for each in dataclasses.fields(cls):
            annotation, option = get_args(hints[each.name])
            found.append(Field(each.name, annotation, option, each.default))
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        """Values in JSON's own types; objects, which only Python can pass, as their ``repr``."""
        values = ((each.name, getattr(self, each.name)) for each in self.fields() if each.name not in self._of_the_call)
        return {name: _plain(value) for name, value in values}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Options from :meth:`to_json`; what is missing keeps its default, and unknown names are an error."""
        known = {each.name: each for each in cls.fields()}
        for name in values:
            if name not in known:
                raise InputError(f"unknown option {name!r}; {advise(name, known)}")
        return cls(**{name: _from_plain(value, known[name].annotation) for name, value in values.items()})


def check_option(name: str, value: Any, annotation: Any, option: Option) -> None:
    """Raise an :class:`InputError` unless ``value`` has one of the types and is within the bounds."""
    kinds = list(alternatives(annotation))
    if value is None and type(None) in kinds:
        return
    choices = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    if isinstance(value, str) and choices:
        if value not in choices and not (name == "features" and is_feature_expression(value)):
            raise InputError(f"unknown {name.replace('_', ' ')} {value!r}; {advise(value, choices)}")
        return
    if Any in kinds:
        return
    if not any(_is_a(value, kind) for kind in kinds) or not _within(value, option):
        raise InputError(f"{name} must be {_expected(kinds, choices, option)}, got {value!r}.")
    if option.parse is not None:
        option.parse(value)


def alternatives(annotation: Any) -> Iterator[Any]:
    """Members of a union, or the type itself."""
    if get_origin(annotation) in (Union, types.UnionType):
        for each in get_args(annotation):
            yield from alternatives(each)
    else:
        yield annotation


def _is_a(value: Any, kind: Any) -> bool:
    if kind is bool:
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(kind, type):
        return False
    if kind is int:
        return isinstance(value, numbers.Integral)
    if kind is float:
        return isinstance(value, numbers.Real) and math.isfinite(float(value))
    return isinstance(value, (str, Path) if kind is Path else kind)


def _within(value: Any, option: Option) -> bool:
    if not isinstance(value, numbers.Real):
        return True
    number = float(value)
    return (
        (option.at_least is None or number >= option.at_least)
        and (option.at_most is None or number <= option.at_most)
        and (option.above is None or number > option.above)
        and (option.below is None or number < option.below)
    )


def _expected(kinds: list[Any], choices: list[Any], option: Option) -> str:
    nouns = {bool: "True or False", int: "an integer", float: "a number", str: "a string", Path: "a path"}
    bounds = (("of at least", option.at_least), ("of at most", option.at_most), ("above", option.above))
    limits = [f"{words} {bound:g}" for words, bound in (*bounds, ("below", option.below)) if bound is not None]
    words = [*map(repr, choices), *(noun for kind, noun in nouns.items() if kind in kinds)]
    return " or ".join(words) + (f" {' and '.join(limits)}" if limits else "")


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else repr(value)


def _from_plain(value: Any, annotation: Any) -> Any:
    return Path(value) if isinstance(value, str) and Path in set(alternatives(annotation)) else value


@dataclass(frozen=True, kw_only=True)
class FeatureOptions(Options):
    """Features and distance by which images are compared."""

    symmetry: Annotated[
        Symmetry | Any,
        Option(
            "Transformations to ignore. rotation-reflection and d4 (quarter turns) include mirror images; "
            "rotation-translation is for content that is not centred; so3 for signals on the sphere; so3-shapes for "
            "3-D shapes.",
            default="that of the features, else rotation or, for shapes, so3-shapes",
        ),
    ] = None
    features: Annotated[
        FeatureName | Any,
        Option(
            "Feature extractor. ring-bispectrum reproduces the paper; best-rotation compares each pair of images at "
            "its best rotation.",
            default="bispectrum for rotation, else the bispectrum of the symmetry",
        ),
    ] = None
    metric: Annotated[
        Metric | None,
        Option(
            "Distance between features.",
            default="sqeuclidean for bispectrum, global-, local-bispectrum and best-rotation, else l1",
        ),
    ] = None
    intensity: Annotated[
        Literal["ignore", "keep"] | None,
        Option("Brightness and contrast of whole images: ignore or keep.", default="ignore"),
    ] = None
    pca: Annotated[
        int | None,
        Option("Number of principal components to reduce the features to: faster, approximate.", at_least=1),
    ] = None
    normalize: Annotated[
        bool, Option("Standardize pixels to mean 0 and standard deviation 1 over all sets.", cli=False)
    ] = True


@dataclass(frozen=True, kw_only=True)
class MatchOptions(FeatureOptions):
    """Options of :func:`~bispectral_ot.match`."""

    encoder: Annotated[
        str | None,
        Option(
            "Encoder that is joined with the features: module:name of a torch module or function, or a file .onnx; "
            "pooled over quarter turns."
        ),
    ] = None
    marginals: Annotated[
        Marginals | None,
        Option(
            "Target marginal: balanced (fixed), estimated (class proportions estimated from the target's labels) or "
            "relaxed (free).",
            default="estimated if TARGET has labels, else relaxed",
        ),
    ] = None
    metric_learning: Annotated[
        Literal["auto", "none"],
        Option("Learned metric: auto (from the labels of TARGET, if left-out images gain by it) or none."),
    ] = "auto"
    solver: Annotated[SolverName | Any, Option("Solver of the transport problem.", SOLVER)] = "sinkhorn"
    reg: Annotated[
        float | None,
        Option("Entropic regularization, relative to the largest distance.", SOLVER, default="0.01", above=0),
    ] = None
    tol: Annotated[
        float | None, Option("Tolerance on the marginal error.", SOLVER, default="1e-4; exact: 1e-9", above=0)
    ] = None
    max_iter: Annotated[
        int | None, Option("Maximum number of iterations.", SOLVER, default="that of the solver", at_least=1)
    ] = None
    storage: Annotated[
        Storage | None,
        Option("Storage of the distances: float32, compact (16-bit) or recompute (not stored).", MEMORY, cli=False),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.solver == "exact" and self.reg is not None:
            raise InputError("reg has no effect on the exact solver, which does not regularize; leave it out.")
        own = [name for name in ("reg", "tol", "max_iter") if getattr(self, name) is not None]
        if own and not isinstance(self.solver, str):
            raise InputError(f"{own[0]} is an option of the solver; give it to {type(self.solver).__name__} instead.")

    @property
    def extractor(self) -> Any:
        """Features, joined with the encoder if there is one."""
        if self.encoder is None:
            return self.features
        if not is_feature_expression(self.encoder):
            raise InputError(f"encoder must be module:name or a file .onnx, got {self.encoder!r}.")
        return f"{self.features or 'bispectrum'}+{self.encoder}"


@dataclass(frozen=True, kw_only=True)
class CompareOptions(FeatureOptions):
    """Options of :func:`~bispectral_ot.compare`."""

    labels: Annotated[bool, Option("Add the distance between classes to the cost.")] = False
    gaussian_classes: Annotated[
        bool, Option("Like --labels, with each class approximated by a Gaussian distribution.")
    ] = False
    reg: Annotated[
        float,
        Option(
            "Entropic regularization, relative to the largest cost within a set; 0 for exact transport of small sets.",
            at_least=0,
        ),
    ] = 0.13
    tol: Annotated[float, Option("Tolerance on the marginal error.", cli=False, above=0)] = 1e-6
    permutations: Annotated[
        int, Option("Number of permutations per pair of sets (0: no test; 199 recommended).", TESTS, at_least=0)
    ] = 0
    bootstrap: Annotated[
        int,
        Option("Number of bootstrap samples for the interval of each distance (0: no interval).", TESTS, at_least=0),
    ] = 0
    symmetry_tests: Annotated[
        bool,
        Option(
            "Test which changes explain the difference of each pair: intensity, mirrors, turns, position, size, class "
            "proportions.",
            TESTS,
        ),
    ] = False
    level: Annotated[float, Option("Significance level.", TESTS, above=0, below=1)] = 0.05
    test_images: Annotated[int, Option("Maximum number of images per set used in tests.", TESTS, at_least=2)] = 2000
    seed: Annotated[int, Option("Random seed.", IMAGES, at_least=0)] = 0
    storage: Annotated[
        Storage | None,
        Option("Storage of the distances: float32, compact (16-bit) or recompute (not stored).", MEMORY, cli=False),
    ] = None


@dataclass(frozen=True, kw_only=True)
class UprightOptions(Options):
    """Options of ``upright`` beside those of the match that it makes."""

    symmetry: Annotated[
        Literal["rotation", "rotation-reflection", "d4", "translation"],
        Option("Transformations to undo; d4: quarter turns and mirror images."),
    ] = "rotation"
    features: Annotated[
        FeatureName | Any, Option("Feature extractor.", default="bispectrum for rotation, else that of the symmetry")
    ] = None
    pose_neighbours: Annotated[int, Option("Number of targets that vote on the pose of a source.", at_least=1)] = 10
    fill: Annotated[
        str,
        Option(
            "Colour of new corners: background (median of an image's border), transparent, or a grey value.", OUTPUT
        ),
    ] = "background"
    expand: Annotated[bool, Option("Enlarge the canvas, so that no corner is cut off.", OUTPUT)] = False
    include_ambiguous: Annotated[bool, Option("Turn images whose pose is ambiguous as well.", OUTPUT)] = False


@dataclass(frozen=True, kw_only=True)
class PredictOptions(Options):
    """Options of ``predict``."""

    n_matches: Annotated[int, Option("Number of targets per image in matches.csv.", OUTPUT, at_least=1)] = 5
    poses: Annotated[bool, Option("Estimate the pose of each image; written to poses.csv.", OUTPUT)] = False
    split: Annotated[Split, Option("Split of a dataset that has several.", IMAGES)] = "train"
    root: Annotated[Path | None, Option("Folder of the official IDX files; nothing is downloaded.", IMAGES)] = None
    seed: Annotated[int, Option("Random seed.", IMAGES, at_least=0)] = 0


@dataclass(frozen=True, kw_only=True)
class ImageOptions(Options):
    """How sets are read and prepared."""

    root: Annotated[Path | None, Option("Folder of the official IDX files; nothing is downloaded.", IMAGES)] = None
    resize: Annotated[
        str | None,
        Option(
            "Scale images to fit into this size, such as 32 or 32x48; the aspect ratio is kept and the rest filled "
            "with background.",
            IMAGES,
            default="the size of the images, at most 128",
            parse=parse_size,
        ),
    ] = None
    frame: Annotated[
        str,
        Option(
            "Placement of images: canvas (the whole image), picture (inside a margin that an editor filled), content "
            "(centred, at one size), common (one scale in pixels); one for each set as picture,canvas. auto: canvas, "
            "unless images in files agree better in another frame.",
            IMAGES,
            parse=parse_frames,
        ),
    ] = "auto"
    grey: Annotated[bool, Option("Convert colour images to grey.", IMAGES)] = False
    center: Annotated[bool, Option("Move the content of each image to its centre.", IMAGES)] = False
    limit: Annotated[int | None, Option("Use at most N random images of each set.", IMAGES, at_least=1)] = None
    seed: Annotated[int, Option("Random seed.", IMAGES, at_least=0)] = 0

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width that images are scaled to."""
        return None if self.resize is None else parse_size(self.resize)


@dataclass(frozen=True, kw_only=True)
class ReadOptions(ImageOptions):
    """How the sets of ``compare`` are read and prepared."""

    split: Annotated[Split, Option("Split of datasets that have several.", IMAGES)] = "train"


@dataclass(frozen=True, kw_only=True)
class PairOptions(ImageOptions):
    """How source and target of ``match`` are read and prepared."""

    source_split: Annotated[Split, Option("Split of the source, if it has several.", IMAGES)] = "train"
    target_split: Annotated[Split, Option("Split of the target, if it has several.", IMAGES)] = "train"
    split_halves: Annotated[
        bool, Option("If SOURCE and TARGET are one set: match two disjoint halves of it, stratified by class.", IMAGES)
    ] = False
    rotate_source: Annotated[bool, Option("Rotate every source image by a random angle, for a trial.", IMAGES)] = False
    corrections: Annotated[
        Path | None,
        Option("CSV file of labels exported from the page of a match; these sources become labelled targets.", IMAGES),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RuntimeOptions(Options):
    """Memory and machines."""

    working_memory: Annotated[
        str | None,
        Option(
            "Memory budget for features and distances, such as 4GB.",
            MEMORY,
            default="70 % of the free memory",
            parse=parse_bytes,
        ),
    ] = None
    scheduler: Annotated[str | None, Option(SCHEDULER_HELP, MEMORY, default="threads of this machine")] = None


@dataclass(frozen=True, kw_only=True)
class OutputOptions(Options):
    """What a run prints, and whether it may replace an earlier one."""

    _of_the_call: ClassVar[tuple[str, ...]] = ("overwrite", "as_json", "quiet")

    overwrite: Annotated[bool, Option("Replace an earlier run in the output folder.", OUTPUT)] = False
    as_json: Annotated[bool, Option("Print results.json and nothing else.", OUTPUT, flag=("--json",))] = False
    quiet: Annotated[bool, Option("Print warnings and errors only.", OUTPUT, flag=("--quiet", "-q"))] = False


@dataclass(frozen=True, kw_only=True)
class ReportOptions(OutputOptions):
    """What a run draws."""

    report: Annotated[bool, Option("Write report.html, an interactive page for the browser.", OUTPUT)] = False
    figures: Annotated[bool, Option("Draw figures.", OUTPUT)] = True


@dataclass(frozen=True, kw_only=True)
class MatchOutputOptions(ReportOptions):
    """What a match writes."""

    _of_the_call: ClassVar[tuple[str, ...]] = (*OutputOptions._of_the_call, "dry_run")

    poses: Annotated[bool, Option("Estimate the pose of each source; written to poses.csv.", OUTPUT)] = False
    n_matches: Annotated[int, Option("Number of targets per source in matches.csv.", OUTPUT, at_least=1)] = 5
    dry_run: Annotated[
        bool, Option("Print sizes, memory and estimated time, from a trial with few images; write nothing.", OUTPUT)
    ] = False


@dataclass(frozen=True, kw_only=True)
class DemoOptions(Options):
    """Options of ``demo``."""

    seed: Annotated[int, Option("Random seed of the split and of the angles.", IMAGES, at_least=0)] = 0
    per_class: Annotated[
        int, Option("Number of digits of each class in each set.", IMAGES, at_least=1, at_most=250)
    ] = 250
