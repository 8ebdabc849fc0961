"""Ablations of the paper's method: a table for each question, of experiments that differ in one choice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bispectral_ot import runtime
from bispectral_ot.costs import METRICS
from bispectral_ot.files import write_json, write_text
from studies.cells import Cell, CellStore
from studies.markdown import markdown_table
from studies.paper import FEATURE_TITLES, METRIC_TITLES
from studies.preset import SETTINGS, Preset, check_names, load_labelled

TableRows = tuple[list[str], list[list[str]]]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One experiment, and the row and column of the table it belongs to."""

    row: str
    column: str = ""
    preset: Preset
    features: str = "ring-bispectrum"
    metric: str = "l1"
    setting: str = "rotated"
    solver: str = "entropic"


@dataclass(frozen=True)
class Answer:
    """Variant with its cell."""

    variant: Variant
    cell: Cell


@dataclass(frozen=True)
class Question:
    """Question, the title of its rows, the experiments that answer it, and the form of its table."""

    title: str
    rows: str
    variants: Callable[[Preset], Iterable[Variant]]
    table: Callable[[str, list[Answer]], TableRows]


def run_ablation(
    out: str | Path,
    dataset: str = "mnist",
    *,
    questions: Sequence[str] | None = None,
    preset: Preset = Preset(per_class=1000),  # noqa: B008 (frozen)
    root: str | Path | None = None,
) -> dict[str, list[Answer]]:
    """Vary one choice of the paper at a time, with one table for each question.

    An experiment that two questions need is done once. Writes ``<question>.md`` and ``<question>.json``.

    Parameters
    ----------
    dataset
        Name or path of a set with labels.
    questions
        size, angles, rings, radial-weight, reg, tol, seeds, choices, invariants, radius, floor, solvers, rules; all by
        default.
    root
        Folder of the official IDX files; nothing is downloaded.
    """
    names = list(QUESTIONS) if questions is None else list(questions)
    check_names("questions", names, tuple(QUESTIONS))
    store = CellStore(out, "ablation")
    source = load_labelled(dataset, root=root, per_class=preset.per_class)
    planned = [(name, variant) for name in names for variant in QUESTIONS[name].variants(preset)]
    answers: dict[str, list[Answer]] = {name: [] for name in names}
    with store.recorded({"dataset": source.name, "questions": names, **asdict(preset)}):
        for number, (name, variant) in enumerate(planned):
            runtime.progress("cells", number, len(planned))
            made, features = variant.preset, variant.features
            config = made.config(source, features, variant.setting, variant.metric, variant.solver)
            answers[name].append(Answer(variant, store.cell(config, partial(made.measure, source, features, config))))
            if number + 1 == len(planned) or planned[number + 1][0] != name:
                _write(store.folder, name, source.name, answers[name])
        runtime.progress("cells", len(planned), len(planned))
    return answers


def _write(folder: Path, name: str, dataset: str, answers: list[Answer]) -> None:
    question = QUESTIONS[name]
    table = markdown_table(*question.table(question.rows, answers))
    sizes = sorted({answer.cell["n_source"] for answer in answers})
    size = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    seconds = sum(sum(answer.cell["seconds"].values()) for answer in answers)
    missed = any(not answer.cell["converged"] for answer in answers)
    note = " `*`: the transport missed its tolerance." if missed else ""
    text = f"{question.title} ({dataset}, {size} images a side, {seconds / 60:.1f} min).{note}\n\n{table}"
    write_text(folder / f"{name}.md", text)
    cells = [{"row": a.variant.row, "column": a.variant.column, **a.cell} for a in answers]
    write_json(folder / f"{name}.json", {"question": question.title, "cells": cells})


# Tables


def pivot(title: str, answers: list[Answer]) -> TableRows:
    """Accuracy by row and column."""
    columns = list(dict.fromkeys(answer.variant.column for answer in answers))
    found: dict[str, dict[str, str]] = {}
    for answer in answers:
        found.setdefault(answer.variant.row, {})[answer.variant.column] = _accuracy(answer.cell)
    return [title, *columns], [[row, *(cells.get(column, "") for column in columns)] for row, cells in found.items()]


def details(title: str, answers: list[Answer]) -> TableRows:
    """A row for each experiment, with statistics of the transport."""
    header = [title, "accuracy", "by best match", "targets a source", "cost", "passes", "transport (s)"]
    rows = []
    for variant, cell in ((answer.variant, answer.cell) for answer in answers):
        figures = f"{cell['best_match_accuracy']:.4f}", f"{cell['targets_per_source']:.1f}"
        passes = str(cell["iterations"] or "-"), f"{cell['seconds']['transport']:.1f}"
        rows.append([variant.row, _accuracy(cell), *figures, f"{cell['transport_cost']:.4g}", *passes])
    return header, rows


def rules(title: str, answers: list[Answer]) -> TableRows:
    """Class with most mass against class of the best match."""
    rows = []
    for variant, cell in ((answer.variant, answer.cell) for answer in answers):
        best = cell["best_match_accuracy"]
        rows.append([variant.row, _accuracy(cell), f"{best:.4f}", f"{cell['accuracy'] - best:+.4f}"])
    return [title, "class mass", "single best match", "difference"], rows


def spread(title: str, answers: list[Answer]) -> TableRows:
    """Mean and spread over the columns."""
    rows = []
    for row in dict.fromkeys(answer.variant.row for answer in answers):
        values = np.array([answer.cell["accuracy"] for answer in answers if answer.variant.row == row])
        deviation = values.std(ddof=1) if len(values) > 1 else 0.0
        figures = (values.mean(), deviation, values.min(), values.max())
        rows.append([row, *(f"{figure:.4f}" for figure in figures), str(len(values))])
    return [title, "mean", "standard deviation", "least", "most", "seeds"], rows


def _accuracy(cell: Cell) -> str:
    return f"{cell['accuracy']:.4f}{'' if cell['converged'] else '*'}"


# Variants


def _by_metric(row: str, preset: Preset, **options: Any) -> list[Variant]:
    """Variants for the two metrics that differ most."""
    return [
        Variant(row=row, column=METRIC_TITLES[metric], metric=metric, preset=preset, **options)
        for metric in ("l1", "l2")
    ]


def _titled(features: str, metric: str) -> str:
    return f"{FEATURE_TITLES[features]}, {METRIC_TITLES[metric]}"


def _sizes(preset: Preset) -> Iterable[Variant]:
    largest = preset.per_class or 3000
    for size in dict.fromkeys(max(1, round(share * largest)) for share in (0.01, 0.03, 0.1, 0.3, 1.0)):
        for features, metric in (("ring-bispectrum", "l1"), ("ring-bispectrum", "l2"), ("pixels", "l1")):
            made = replace(preset, per_class=size)
            title = _titled(features, metric)
            yield Variant(row=str(size), column=title, features=features, metric=metric, preset=made)


def _varying(name: str, *values: Any) -> Callable[[Preset], list[Variant]]:
    """Variants of one parameter of the features, for two metrics."""
    return lambda preset: [
        variant for value in values for variant in _by_metric(f"{value:g}", replace(preset, **{name: value}))
    ]


def _solving(name: str, *values: Any) -> Callable[[Preset], list[Variant]]:
    """Variants of one parameter of the solver, on the same cost."""
    return lambda preset: [Variant(row=f"{value:g}", preset=replace(preset, **{name: value})) for value in values]


def _choices(preset: Preset) -> Iterable[Variant]:
    presets = {
        "the paper's choices": preset,
        "without normalizing": replace(preset, normalized=False),
        "background in the corners": replace(preset, fill="background"),
        "bilinear sampling of the rings": replace(preset, sampling="bilinear"),
        "both: --clean": preset.cleaned(),
    }
    for row, chosen in presets.items():
        for setting in SETTINGS:
            for variant in _by_metric(row, chosen, setting=setting):
                yield replace(variant, column=f"{setting}, {variant.column}")


def _seeds(preset: Preset) -> Iterable[Variant]:
    for seed in range(preset.seed, preset.seed + 5):
        for metric in METRICS:
            made = replace(preset, seed=seed)
            yield Variant(row=METRIC_TITLES[metric], column=str(seed), metric=metric, preset=made)


def _invariants(preset: Preset) -> Iterable[Variant]:
    for setting in SETTINGS:
        for features in ("pixels", "ring-power", "ring-bispectrum"):
            row = f"{FEATURE_TITLES.get(features, features)}, {setting}"
            common = {"features": features, "setting": setting, "preset": preset}
            yield from (Variant(row=row, column=METRIC_TITLES[m], metric=m, **common) for m in METRICS)  # type: ignore[arg-type]


def _radii(preset: Preset) -> Iterable[Variant]:
    for radius in (0.8, 0.9, 1.0, 1.04, 1.1, 1.2, 1.4):
        made = replace(preset.cleaned(), radius=radius)
        for kind in ("global-bispectrum", "best-rotation"):
            yield Variant(row=f"{radius:g}", column=kind, features=kind, metric="sqeuclidean", preset=made)


def _floor(preset: Preset) -> Iterable[Variant]:
    for kind in ("pixels", "global-bispectrum", "best-rotation"):
        common: Any = {"features": kind, "metric": "sqeuclidean", "preset": preset.cleaned()}
        yield from (Variant(row=kind, column=setting, setting=setting, **common) for setting in SETTINGS)


def _solvers(preset: Preset) -> Iterable[Variant]:
    # the network simplex grows with the cube of the size: a fifth of the images
    small = replace(preset, per_class=max(1, (preset.per_class or 1000) // 5))
    for reg in (0.05, 0.01, 0.002, 0.0005):
        yield Variant(row=f"entropic, reg {reg:g}", preset=replace(small, reg=reg))
    yield Variant(row="exact", preset=small, solver="exact")


def _rules(preset: Preset) -> Iterable[Variant]:
    for features in FEATURE_TITLES:
        for metric in METRICS:
            yield Variant(row=_titled(features, metric), features=features, metric=metric, preset=preset)


_HOW = "How accuracy depends on the"
QUESTIONS = {
    "size": Question(f"{_HOW} number of images", "images a class in each half", _sizes, pivot),
    "angles": Question(f"{_HOW} number of angles K", "K", _varying("n_angles", 8, 12, 20, 30, 40, 60, 80), pivot),
    "rings": Question(f"{_HOW} number of rings R", "R", _varying("n_rings", 6, 8, 10, 12, 14, 16), pivot),
    "radial-weight": Question(
        f"{_HOW} weight r^w of ring r", "w", _varying("radial_weight", 0.0, 0.5, 1.0, 1.5, 2.0, 3.0), pivot
    ),
    "reg": Question(
        f"{_HOW} regularization", "reg", _solving("reg", 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001), details
    ),
    "tol": Question(f"{_HOW} tolerance", "tol", _solving("tol", 5e-3, 1e-3, 1e-4, 1e-6), details),
    "seeds": Question("How accuracy varies with the seed", "metric", _seeds, spread),
    "choices": Question("Effect of the choices of the paper", "choices", _choices, pivot),
    "invariants": Question("Power spectrum and bispectrum on the same rings", "features, setting", _invariants, pivot),
    "radius": Question(f"{_HOW} radius (1: the largest disk inside the image)", "radius", _radii, pivot),
    "floor": Question("Cost of invariance: sources rotated, and nothing rotated (baseline)", "features", _floor, pivot),
    "solvers": Question("Exact and entropic transport", "transport", _solvers, details),
    "rules": Question("Class with the most mass, and class of the best match", "features, metric", _rules, rules),
}
