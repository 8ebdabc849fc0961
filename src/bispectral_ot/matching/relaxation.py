"""How firmly a match holds to the weights of the two sets, and the solve that follows from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import check_choice
from bispectral_ot.choices import Marginals
from bispectral_ot.costs import Cost, Metric
from bispectral_ot.errors import DataWarning, InputError, warn
from bispectral_ot.matching.shares import SAMPLE, ShareEstimate, estimate_shares, sample_classes
from bispectral_ot.spaces import FeatureMap
from bispectral_ot.transport import Coupling, Sinkhorn, Solver, TargetGroups

Vector = NDArray[np.float64]
Index = NDArray[np.int64]

# Penalties on the mass of single targets, relative to the regularisation of the plan: within classes whose totals are
# held, and where nothing is known. The former grows with the images of a class: many show how these are distributed, a
# few do not.
_WITHIN_CLASSES, _PER_IMAGE, _UNKNOWN = 2.0, 1 / 150, 0.5
# Sources that an estimate of shares looks at.
_SOURCES = 8192
# Total variation between the shares of two labelled sets, beyond chance, that makes a balanced plan doubtful.
_DIFFERENT_SHARES = 0.05


def choose_marginals(
    marginals: Marginals | None, solver: Solver, target_labels: NDArray[Any] | None, *, weighted: bool
) -> Marginals:
    """The way that was asked for, or the one that suits what is known."""
    adjustable = isinstance(solver, Sinkhorn) and solver.unbalanced is None and solver.mass is None
    if marginals is None:
        if not adjustable or weighted:
            return "balanced"
        return "relaxed" if target_labels is None else "estimated"
    check_choice("marginals", marginals, get_args(Marginals))
    if marginals == "balanced":
        return marginals
    if not adjustable:
        raise InputError(
            f"marginals={marginals!r} sets the penalties of a Sinkhorn solver itself, got {solver!r}; leave marginals "
            "out to solve with it, or give Sinkhorn(reg=...)."
        )
    if marginals == "estimated" and target_labels is None:
        raise InputError(
            'marginals="estimated" needs labels on the target, of whose classes it estimates the shares; give '
            'Dataset(images, labels), a folder for each class, or marginals="relaxed".'
        )
    if marginals == "estimated" and weighted:
        raise InputError('weights say the shares, and marginals="estimated" finds them; leave one of them out.')
    return marginals


def estimate_for(
    feature_map: FeatureMap,
    metric: Metric,
    features: tuple[Any, Any],
    target_labels: NDArray[Any],
    *,
    scale: float,
) -> ShareEstimate:
    """Estimate shares from some of both sets; ``features`` give the features at some positions of each."""
    classes, codes = np.unique(target_labels, return_inverse=True)
    counts = np.bincount(codes).astype(np.float64)
    single = classes[counts == 1]
    if len(single):
        named = ", ".join(map(str, single[:5])) + (", ..." if len(single) > 5 else "")
        warn(
            f"{len(single)} of the {len(classes)} classes of the target have one image ({named}): how well they are "
            "recognized cannot be measured, and their shares are uncertain.",
            DataWarning,
        )
    at = sample_classes(codes.astype(np.int64))
    source, target = features[0](_SOURCES), features[1](at)
    between = feature_map.distance(source, target, metric)
    within = feature_map.distance(target, target, metric).rows(0, len(at))
    return estimate_shares(between, within, codes[at].astype(np.int64), counts, scale=scale)


def solve_marginals(
    marginals: Marginals,
    solver: Any,
    cost: Cost,
    weights: tuple[Vector, Vector],
    target_labels: NDArray[Any] | None,
    estimate: ShareEstimate | None,
    **options: Any,
) -> Coupling:
    """Solve with the weights as they are, with loose targets, or with firm classes of loose targets.

    ``options`` are those of ``solver.solve``.
    """
    if marginals == "balanced":
        coupling: Coupling = solver.solve(cost, *weights, **options)
        return coupling
    if marginals == "relaxed":
        solver = replace(solver, unbalanced=(None, _UNKNOWN * solver.reg))
        return solver.solve(cost, *weights, **options)  # type: ignore[no-any-return]
    assert estimate is not None
    assert target_labels is not None
    codes = np.unique(target_labels, return_inverse=True)[1].astype(np.int64)
    penalty = max(_WITHIN_CLASSES, _PER_IMAGE * float(np.median(estimate.counts))) * solver.reg
    # firmness is lam / (lam + penalty + reg)
    firm = estimate.firmness / (1 - estimate.firmness) * (penalty + solver.reg)
    solver = replace(solver, unbalanced=(None, penalty))
    target_weights = (estimate.shares / estimate.counts)[codes]
    groups = TargetGroups(codes, firm)
    return solver.solve(cost, weights[0], target_weights, target_groups=groups, **options)  # type: ignore[no-any-return]


def warn_of_different_shares(
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
    if different > _DIFFERENT_SHARES + by_chance:
        warn(
            f"the two sets have their classes in different shares: a balanced match sends {different:.0%} of the "
            'source to other classes. marginals="estimated" (--marginals estimated) finds the shares; "relaxed" asks '
            "for none.",
            DataWarning,
        )


def some_rows(n: int, size: int = SAMPLE, *, seed: int = 0) -> Index:
    """At most ``size`` of n positions at random, in order."""
    return np.sort(np.random.default_rng(seed).permutation(n)[:size])
