"""What a reader of the paper will ask, as lists of experiments that differ in one thing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bispectral_ot.costs import METRICS
from studies.paper import FEATURE_TITLES, METRIC_TITLES
from studies.preset import SETTINGS, Preset

TableRows = tuple[list[str], list[list[str]]]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One experiment, and the row and column of the table it belongs to."""

    row: str
    column: str
    preset: Preset
    features: str = "ring-bispectrum"
    metric: str = "l1"
    setting: str = "rotated"
    solver: str = "entropic"


@dataclass(frozen=True)
class Answer:
    """A variant with its cell."""

    variant: Variant
    cell: dict[str, Any]


@dataclass(frozen=True)
class Question:
    """A question, the experiments that answer it, and the table that shows the answer."""

    title: str
    what: str
    variants: Callable[[Preset], list[Variant]]
    table: Callable[[str, list[Answer]], TableRows]


def pivot(what: str, answers: list[Answer]) -> TableRows:
    """Accuracy by row and column."""
    rows = list(dict.fromkeys(answer.variant.row for answer in answers))
    columns = list(dict.fromkeys(answer.variant.column for answer in answers))
    found = {(answer.variant.row, answer.variant.column): _accuracy(answer.cell) for answer in answers}
    return [what, *columns], [[row, *(found.get((row, column), "") for column in columns)] for row in rows]


def details(what: str, answers: list[Answer]) -> TableRows:
    """A row for each experiment, with what the transport did."""
    header = [what, "accuracy", "by best match", "targets a source", "cost", "passes", "transport (s)"]
    rows = [
        [
            answer.variant.row,
            _accuracy(answer.cell),
            f"{answer.cell['best_match_accuracy']:.4f}",
            f"{answer.cell['targets_per_source']:.1f}",
            f"{answer.cell['transport_cost']:.4g}",
            str(answer.cell["iterations"] or "-"),
            f"{answer.cell['seconds']['transport']:.1f}",
        ]
        for answer in answers
    ]
    return header, rows


def rules(what: str, answers: list[Answer]) -> TableRows:
    """The class with most mass against the class of the best match."""
    rows = [
        [
            answer.variant.row,
            _accuracy(answer.cell),
            f"{answer.cell['best_match_accuracy']:.4f}",
            f"{answer.cell['accuracy'] - answer.cell['best_match_accuracy']:+.4f}",
        ]
        for answer in answers
    ]
    return [what, "class mass", "single best match", "difference"], rows


def spread(what: str, answers: list[Answer]) -> TableRows:
    """Mean and spread over the columns."""
    rows = []
    for row in dict.fromkeys(answer.variant.row for answer in answers):
        values = np.array([answer.cell["accuracy"] for answer in answers if answer.variant.row == row])
        deviation = values.std(ddof=1) if len(values) > 1 else 0.0
        figures = (values.mean(), deviation, values.min(), values.max())
        rows.append([row, *(f"{figure:.4f}" for figure in figures), str(len(values))])
    return [what, "mean", "standard deviation", "least", "most", "seeds"], rows


def _accuracy(cell: dict[str, Any]) -> str:
    return f"{cell['accuracy']:.4f}{'' if cell['converged'] else '*'}"


def _by_metric(row: str, preset: Preset, **options: Any) -> list[Variant]:
    """The two metrics that differ most."""
    return [
        Variant(row=row, column=METRIC_TITLES[metric], metric=metric, preset=preset, **options)
        for metric in ("l1", "l2")
    ]


def _sizes(preset: Preset) -> list[Variant]:
    largest = preset.per_class or 3000
    sizes = dict.fromkeys(max(1, round(share * largest)) for share in (0.01, 0.03, 0.1, 0.3, 1.0))
    sides = (("ring-bispectrum", "l1"), ("ring-bispectrum", "l2"), ("pixels", "l1"))
    return [
        Variant(
            row=str(size),
            column=f"{FEATURE_TITLES[features]}, {METRIC_TITLES[metric]}",
            features=features,
            metric=metric,
            preset=replace(preset, per_class=size),
        )
        for size in sizes
        for features, metric in sides
    ]


def _varying(name: str, values: tuple[Any, ...]) -> Callable[[Preset], list[Variant]]:
    """Variants of one parameter of the preset, for two metrics."""
    return lambda preset: [
        variant for value in values for variant in _by_metric(f"{value:g}", replace(preset, **{name: value}))
    ]


def _solving(name: str, values: tuple[Any, ...]) -> Callable[[Preset], list[Variant]]:
    """Variants of one parameter of the solver, on the same cost."""
    return lambda preset: [
        Variant(row=f"{value:g}", column="", preset=replace(preset, **{name: value})) for value in values
    ]


def _choices(preset: Preset) -> list[Variant]:
    presets = {
        "the paper's choices": preset,
        "without normalizing": replace(preset, normalized=False),
        "background in the corners": replace(preset, fill="background"),
        "bilinear sampling of the rings": replace(preset, sampling="bilinear"),
        "both: --clean": preset.cleaned(),
    }
    return [
        replace(variant, column=f"{setting}, {variant.column}")
        for row, chosen in presets.items()
        for setting in SETTINGS
        for variant in _by_metric(row, chosen, setting=setting)
    ]


def _seeds(preset: Preset) -> list[Variant]:
    return [
        Variant(
            row=METRIC_TITLES[metric],
            column=str(seed),
            metric=metric,
            preset=replace(preset, seed=seed),
        )
        for seed in range(preset.seed, preset.seed + 5)
        for metric in METRICS
    ]


def _invariants(preset: Preset) -> list[Variant]:
    return [
        Variant(
            row=f"{FEATURE_TITLES.get(features, features)}, {setting}",
            column=METRIC_TITLES[metric],
            features=features,
            metric=metric,
            setting=setting,
            preset=preset,
        )
        for setting in SETTINGS
        for features in ("pixels", "ring-power", "ring-bispectrum")
        for metric in METRICS
    ]


def _radii(preset: Preset) -> list[Variant]:
    return [
        Variant(
            row=f"{radius:g}",
            column=features,
            features=features,
            metric="sqeuclidean",
            preset=replace(preset.cleaned(), radius=radius),
        )
        for radius in (0.8, 0.9, 1.0, 1.04, 1.1, 1.2, 1.4)
        for features in ("global-bispectrum", "best-rotation")
    ]


def _floor(preset: Preset) -> list[Variant]:
    return [
        Variant(
            row=features,
            column=setting,
            features=features,
            metric="sqeuclidean",
            setting=setting,
            preset=preset.cleaned(),
        )
        for features in ("pixels", "global-bispectrum", "best-rotation")
        for setting in SETTINGS
    ]


def _solvers(preset: Preset) -> list[Variant]:
    # the network simplex grows with the cube of the size: a fifth of the images
    small = replace(preset, per_class=max(1, (preset.per_class or 1000) // 5))
    entropic = [
        Variant(row=f"entropic, reg {reg:g}", column="", preset=replace(small, reg=reg))
        for reg in (0.05, 0.01, 0.002, 0.0005)
    ]
    return [*entropic, Variant(row="exact", column="", preset=small, solver="exact")]


def _rules(preset: Preset) -> list[Variant]:
    return [
        Variant(
            row=f"{FEATURE_TITLES[features]}, {METRIC_TITLES[metric]}",
            column="",
            features=features,
            metric=metric,
            preset=preset,
        )
        for features in FEATURE_TITLES
        for metric in METRICS
    ]


QUESTIONS = {
    "size": Question("How accuracy depends on the number of images", "images a class in each half", _sizes, pivot),
    "angles": Question(
        "How accuracy depends on the number of angles K",
        "K",
        _varying("n_angles", (8, 12, 20, 30, 40, 60, 80)),
        pivot,
    ),
    "rings": Question(
        "How accuracy depends on the number of rings R",
        "R",
        _varying("n_rings", (6, 8, 10, 12, 14, 16)),
        pivot,
    ),
    "radial-weight": Question(
        "How accuracy depends on the weight r^w of ring r",
        "w",
        _varying("radial_weight", (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)),
        pivot,
    ),
    "reg": Question(
        "How accuracy depends on the regularisation",
        "reg",
        _solving("reg", (0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)),
        details,
    ),
    "tol": Question("How accuracy depends on the tolerance", "tol", _solving("tol", (5e-3, 1e-3, 1e-4, 1e-6)), details),
    "seeds": Question("How accuracy varies with the seed", "metric", _seeds, spread),
    "choices": Question("What each of the paper's choices does", "choices", _choices, pivot),
    "invariants": Question(
        "Power spectrum against bispectrum on the same rings", "features, setting", _invariants, pivot
    ),
    "radius": Question(
        "How accuracy depends on the radius that is seen (1: the largest disk inside the image)",
        "radius",
        _radii,
        pivot,
    ),
    "floor": Question("What invariance itself costs: A turned, and nothing turned", "features", _floor, pivot),
    "solvers": Question("Exact transport against entropic", "transport", _solvers, details),
    "rules": Question("The class-mass rule against the single best match", "features, metric", _rules, rules),
}
