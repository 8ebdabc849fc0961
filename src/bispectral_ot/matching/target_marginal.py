"""Marginals of a match: balanced, relaxed, or with estimated class proportions; and the solve that follows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import Cost
from bispectral_ot.errors import DataWarning, InputError, warn
from bispectral_ot.literals import Marginals
from bispectral_ot.matching.source_classes import ProportionEstimate
from bispectral_ot.transport import Coupling, Sinkhorn, Solver, TargetGroups

Vector = NDArray[np.float64]

# Penalties on the mass of single targets, relative to the regularisation of the plan: within classes whose totals are
# held, and where nothing is known. The former grows with the images of a class: many show how these are distributed, a
# few do not.
_WITHIN_CLASSES, _PER_IMAGE, _UNKNOWN = 2.0, 1 / 150, 0.5
# Total variation between the class proportions of two labelled sets, beyond chance, that is warned of.
_DIFFERENT = 0.05


def choose_marginals(
    marginals: Marginals | None, solver: Solver, target_labels: NDArray[Any] | None, *, weighted: bool
) -> Marginals:
    """Resolve the ``marginals`` option."""
    adjustable = isinstance(solver, Sinkhorn) and solver.unbalanced is None
    if marginals is None:
        if not adjustable or weighted:
            return "balanced"
        return "relaxed" if target_labels is None else "estimated"
    if marginals == "balanced":
        return marginals
    if not adjustable:
        raise InputError(
            f"marginals={marginals!r} sets the penalties of a Sinkhorn solver itself, got {solver!r}; leave marginals "
            "out to solve with it, or give Sinkhorn(reg=...)."
        )
    if marginals == "estimated" and target_labels is None:
        raise InputError(
            'marginals="estimated" needs labels on the target, whose class proportions it estimates; give '
            'Dataset(images, labels), a folder for each class, or marginals="relaxed".'
        )
    if marginals == "estimated" and weighted:
        raise InputError('weights and marginals="estimated" are mutually exclusive; leave one of them out.')
    return marginals


def solve_marginals(
    marginals: Marginals,
    solver: Any,
    cost: Cost,
    weights: tuple[Vector, Vector],
    target_labels: NDArray[Any] | None,
    estimate: ProportionEstimate | None,
    *,
    state: str | Path | None = None,
) -> Coupling:
    """Solve with exact marginals, with a relaxed target marginal, or with penalized class totals in addition."""
    source_weights, target_weights = weights
    options: dict[str, Any] = {} if state is None else {"state": state}
    if marginals == "relaxed":
        solver = replace(solver, unbalanced=(None, _UNKNOWN * solver.reg))
    elif marginals == "estimated":
        assert estimate is not None
        codes = np.unique(np.asarray(target_labels), return_inverse=True)[1].astype(np.int64)
        penalty = max(_WITHIN_CLASSES, _PER_IMAGE * float(np.median(estimate.counts))) * solver.reg
        # firmness is lam / (lam + penalty + reg)
        firm = estimate.firmness / (1 - estimate.firmness) * (penalty + solver.reg)
        solver = replace(solver, unbalanced=(None, penalty))
        target_weights = (estimate.proportions / estimate.counts)[codes]
        options["target_groups"] = TargetGroups(codes, firm)
    coupling: Coupling = solver.solve(cost, source_weights, target_weights, **options)
    return coupling


def warn_of_different_proportions(
    labels: tuple[NDArray[Any] | None, NDArray[Any] | None], weights: tuple[Vector, Vector]
) -> None:
    """Warn where a balanced plan must send elements to other classes."""
    source, target = labels
    if source is None or target is None or not np.isin(source, target).any():
        return
    classes = np.union1d(source, target)
    one, other = (
        np.bincount(np.searchsorted(classes, side), weights=mass, minlength=len(classes))
        for side, mass in zip((source, target), weights, strict=True)
    )
    different = float(np.abs(one - other).sum() / 2)
    by_chance = float(np.sqrt(len(classes) * (1 / len(source) + 1 / len(target)))) / 2
    if different > _DIFFERENT + by_chance:
        warn(
            f"the two sets have different class proportions: a balanced match sends {different:.0%} of the source to "
            'other classes. marginals="estimated" (--marginals estimated) estimates them; "relaxed" needs none.',
            DataWarning,
        )
