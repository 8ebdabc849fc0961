"""Spaces that a group moves: their points as elements of the group."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot.errors import InputError
from bispectral_ot.groups import FiniteGroup
from bispectral_ot.groups.table import generators


def lift_indices(group: FiniteGroup, space: ArrayLike) -> NDArray[np.int64]:
    """For each g the point ``g^-1 x_0``, whose value the lifted signal has at g."""
    action = np.asarray(space)
    if action.ndim != 2 or len(action) != group.order or action.dtype.kind not in "iu":
        raise InputError(
            f"space must be an integer array of shape ({group.order}, n_points) that says where each element "
            f"moves each point; got {action.dtype} of shape {action.shape}."
        )
    n_points = action.shape[1]
    if n_points == 0 or action.min() < 0 or action.max() >= n_points:
        raise InputError(f"space must hold point numbers from 0 to {n_points - 1}.")
    if not np.array_equal(action[group.identity], np.arange(n_points)):
        raise InputError("space is no action of the group: its identity moves points.")
    for element in generators(group.table):
        wrong = np.argwhere(action[element][action] != action[group.table[element]])
        if len(wrong):
            other, point = wrong[0]
            raise InputError(
                f"space is no action of the group: {element} ({other} x) is not ({element} * {other}) x "
                f"at point x = {point}."
            )
    lift: NDArray[np.int64] = action[group.inverse, 0].astype(np.int64)
    unreached = np.setdiff1d(np.arange(n_points), lift)
    if len(unreached):
        raise InputError(
            f"point {unreached[0]} cannot be reached from point 0; a homogeneous space has one orbit. "
            "Give each orbit a transformer of its own."
        )
    return lift
