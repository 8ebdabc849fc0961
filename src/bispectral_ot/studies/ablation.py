"""Runs the questions of :mod:`~bispectral_ot.studies.questions`, experiment by experiment, resumable."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

from bispectral_ot.datasets import Dataset, load
from bispectral_ot.errors import InputError
from bispectral_ot.progress import Progress, silent
from bispectral_ot.runs import write_json, write_text
from bispectral_ot.studies.cells import CellStore
from bispectral_ot.studies.experiment import compute_cell, compute_cost, shared_features
from bispectral_ot.studies.preset import Preset, check_names
from bispectral_ot.studies.questions import QUESTIONS, Answer, Variant
from bispectral_ot.studies.tables import markdown_table


def run_ablation(
    out: str | Path,
    *,
    dataset: str = "mnist",
    questions: list[str] | None = None,
    preset: Preset | None = None,
    root: str | Path | None = None,
    working_memory: str | int | float | None = None,
    progress: Progress = silent,
    report: Callable[[dict[str, Any]], None] = lambda cell: None,
) -> dict[str, list[Answer]]:
    """Answer questions about the method with a table each.

    Every experiment is saved as it ends under a name that comes from its configuration: a stopped run goes on
    where it was, and an experiment that two questions need is done once. Writes ``<question>.md`` and
    ``<question>.json`` for each question.

    Parameters
    ----------
    questions
        Names in :data:`~bispectral_ot.studies.questions.QUESTIONS`; all by default.
    preset
        The choices that are not varied; 1,000 images a class by default.
    """
    names = list(QUESTIONS) if questions is None else questions
    check_names("questions", names, tuple(QUESTIONS))
    preset = preset or Preset(per_class=1000)
    folder = Path(out)
    source = load(dataset, root=root)
    if source.labels is None:
        raise InputError(f"{source.name!r} has no labels, and class preservation is measured with them.")
    store = CellStore(folder / "cells", names=("dataset", "setting", "features", "metric", "digest"))
    planned = {name: [(v, _config(source, v)) for v in QUESTIONS[name].variants(preset)] for name in names}
    total, done = sum(map(len, planned.values())), 0
    answers: dict[str, list[Answer]] = {}
    for name, variants in planned.items():
        found: list[Answer] = []
        # neighbours that differ in metric or solver only share features, and the cost as well if they can
        for _, group in groupby(variants, key=lambda pair: _features_key(pair[1])):
            members = list(group)
            if any(store.find(config) is None for _, config in members):
                _compute(source, members, store, working_memory=working_memory, progress=progress, report=report)
            for variant, config in members:
                cell = store.find(config)
                assert cell is not None
                found.append(Answer(variant, cell))
            done += len(members)
            progress("cells", done, total)
        answers[name] = found
        _write(folder, name, source, found)
    return answers


def _compute(
    dataset: Dataset,
    members: list[tuple[Variant, dict[str, Any]]],
    store: CellStore,
    *,
    working_memory: str | int | float | None,
    progress: Progress,
    report: Callable[[dict[str, Any]], None],
) -> None:
    first = members[0][0]
    with shared_features(
        dataset,
        first.setting,
        first.features,
        first.preset,
        working_memory=working_memory,
        progress=progress,
    ) as shared:
        for metric, group in groupby(members, key=lambda pair: pair[0].metric):
            todo = [config for _, config in group if store.find(config) is None]
            if not todo:
                continue
            cost = compute_cost(shared, metric, progress=progress)
            for config in todo:
                cell = compute_cell(shared, cost, config, progress=progress)
                store.save(cell)
                report(cell)
            del cost  # the next one needs the room


def _config(dataset: Dataset, variant: Variant) -> dict[str, Any]:
    (config,) = variant.preset.cell_configs(dataset, variant.features, variant.setting, [variant.metric])
    config["solver"] = variant.solver
    text = json.dumps(config, sort_keys=True)
    return {**config, "digest": f"{zlib.crc32(text.encode()):08x}"}


def _features_key(config: dict[str, Any]) -> str:
    later = ("metric", "reg", "tol", "solver", "digest")
    return json.dumps({key: value for key, value in config.items() if key not in later}, sort_keys=True)


def _write(folder: Path, name: str, dataset: Dataset, answers: list[Answer]) -> None:
    question = QUESTIONS[name]
    table = markdown_table(*question.table(question.what, answers))
    sizes = sorted({answer.cell["n_source"] for answer in answers})
    size = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    # features and costs that cells share have the very same time, and count once
    seconds = sum(sum({a.cell["seconds"][stage] for a in answers}) for stage in answers[0].cell["seconds"])
    missed = any(not answer.cell["converged"] for answer in answers)
    note = " `*`: the transport missed its tolerance." if missed else ""
    text = f"{question.title} ({dataset.name}, {size} images a side, {seconds / 60:.1f} min).{note}\n\n{table}"
    write_text(folder / f"{name}.md", text)
    cells = [{"row": a.variant.row, "column": a.variant.column, **a.cell} for a in answers]
    write_json(folder / f"{name}.json", {"question": question.title, "cells": cells})
