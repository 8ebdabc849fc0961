"""Runs the questions of :mod:`~studies.questions`, experiment by experiment, resumable."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from bispectral_ot.datasets import Dataset
from bispectral_ot.files import write_json, write_text
from studies.cells import CellStore, Report
from studies.experiment import CellGroup
from studies.markdown import markdown_table
from studies.preset import Preset, check_names, load_labelled
from studies.questions import QUESTIONS, Answer, Variant


def run_ablation(
    out: str | Path,
    *,
    dataset: str = "mnist",
    questions: list[str] | None = None,
    preset: Preset | None = None,
    root: str | Path | None = None,
    working_memory: str | int | float | None = None,
    client: Any = None,
    report: Report = lambda cell: None,
) -> dict[str, list[Answer]]:
    """Answer questions about the method with a table each.

    Every experiment is saved as it ends under a name that comes from its configuration: a stopped run goes on
    where it was, and an experiment that two questions need is done once. Writes ``<question>.md`` and
    ``<question>.json`` for each question, and ``run.json`` about the latest call.

    Parameters
    ----------
    questions
        Names in :data:`~studies.questions.QUESTIONS`; all by default.
    preset
        The choices that are not varied; 1,000 images a class by default.
    client
        A ``distributed.Client`` to work on a Dask cluster, as for :func:`~bispectral_ot.match`.
    report
        Called with each cell as it ends, and what it varies as ``cell["variant"]``.
    """
    names = list(QUESTIONS) if questions is None else questions
    check_names("questions", names, tuple(QUESTIONS))
    preset = preset or Preset(per_class=1000)
    folder = Path(out)
    outputs = (f"{question}.{suffix}" for question in QUESTIONS for suffix in ("md", "json"))
    store = CellStore(folder, "study ablation", tuple(outputs), (*CellStore.names, "digest"))
    source = load_labelled(dataset, root=root, per_class=preset.per_class)
    planned = [
        Planned(name, variant, _config(source, variant))
        for name in names
        for variant in QUESTIONS[name].variants(preset)
    ]
    titles = {entry.config["digest"]: entry.title for entry in reversed(planned)}  # the first that asks for it
    # neighbours that differ in metric or solver only share features, and the cost as well if they can
    shared = [list(group) for _, group in groupby(planned, key=_sharing)]
    work = store.run(
        [_group(source, members) for members in shared],
        working_memory=working_memory,
        client=client,
        report=lambda cell: report(cell | {"variant": titles[cell["config"]["digest"]]}),
    )
    options = {"dataset": source.name, "questions": names, **asdict(preset), "working_memory": working_memory}
    answers: dict[str, list[Answer]] = {name: [] for name in names}
    last = {members[0].question: members for members in shared}
    with store.recorded(options):
        for members, _ in zip(shared, work, strict=True):
            name = members[0].question
            answers[name] += [Answer(entry.variant, store.read(entry.config)) for entry in members]
            if members is last[name]:
                _write(folder, name, source, answers[name])
    return answers


class Planned(NamedTuple):
    """An experiment that a question asks for."""

    question: str
    variant: Variant
    config: dict[str, Any]

    @property
    def title(self) -> str:
        """Such as ``reg: 0.05`` or ``angles: 8, L1``."""
        return f"{self.question}: " + ", ".join(filter(None, (self.variant.row, self.variant.column)))


def _group(dataset: Dataset, members: list[Planned]) -> CellGroup:
    first = members[0].variant
    return first.preset.group(dataset, first.features, first.setting, [entry.config for entry in members])


def _config(dataset: Dataset, variant: Variant) -> dict[str, Any]:
    (config,) = variant.preset.cell_configs(dataset, variant.features, variant.setting, [variant.metric])
    config["solver"] = variant.solver
    text = json.dumps(config, sort_keys=True)
    return {**config, "digest": f"{zlib.crc32(text.encode()):08x}"}


def _sharing(entry: Planned) -> tuple[str, str]:
    """Equal for experiments of a question that have the same features."""
    later = ("metric", "reg", "tol", "solver", "digest")
    features = {key: value for key, value in entry.config.items() if key not in later}
    return entry.question, json.dumps(features, sort_keys=True)


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
