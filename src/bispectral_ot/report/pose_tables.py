"""Poses in tables: the rows of ``poses.csv``, and what ``results.json`` says of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from bispectral_ot.poses import MotionArray, Poses
from bispectral_ot.report.tables import Row, Side

Column = Iterable[Any]


def pose_rows(poses: Poses, source: Side) -> tuple[list[str], list[Row]]:
    """Header and rows of ``poses.csv``: one row for each source; empty where there is no pose."""
    columns: dict[str, Column] = {"source": source.positions}
    if source.dataset.files:
        columns["source_file"] = source.dataset.files
    columns |= _motion_columns(poses.motions)
    columns |= {
        "fit": _texts(poses.fits, ".4f"),
        "score": _texts(poses.scores, ".4f"),
        "uncertainty": _texts(poses.uncertainty, ".2f"),
        "ambiguous": ["yes" if value else "no" for value in poses.ambiguous],
    }
    columns |= {f"runner_up_{name}": values for name, values in _motion_columns(poses.runner_up).items()}
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def _motion_columns(motions: MotionArray) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    if motions.angles is not None:
        columns["angle"] = _texts(motions.angles, ".2f")
    if motions.mirrored is not None:
        columns["mirrored"] = ["yes" if value else "no" for value in motions.mirrored]
    if motions.shifts is not None:
        columns |= {
            name: _texts(values, ".2f") for name, values in zip(("down", "right"), motions.shifts.T, strict=True)
        }
    if motions.quaternions is not None:
        columns |= {name: _texts(values, ".6f") for name, values in zip("xyzw", motions.quaternions.T, strict=True)}
    return columns


def _texts(values: Any, form: str) -> list[str]:
    return [format(value, form) if np.isfinite(value) else "" for value in values]


def pose_summary(poses: Poses) -> dict[str, Any]:
    """The figures of all poses, for ``results.json``."""
    known = poses.uncertainty[np.isfinite(poses.uncertainty) & ~poses.ambiguous]
    return {
        "sources": len(poses),
        "voters": int(poses.targets.shape[1]),
        "certain": int((poses.found & ~poses.ambiguous).sum()),
        "ambiguous": int((poses.found & poses.ambiguous).sum()),
        "without": int((~poses.found).sum()),
        "median_uncertainty": float(np.median(known)) if len(known) else None,
        "unit": "pixels" if poses.angles is None and poses.shifts is not None else "degrees",
    }
