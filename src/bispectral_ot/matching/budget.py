"""How features, cost and solver share a byte budget, decided before any work is done."""

from __future__ import annotations

from dataclasses import dataclass

from bispectral_ot.costs import STORAGES, Storage, choose_storage
from bispectral_ot.costs.cost import storage_bytes
from bispectral_ot.errors import MemoryBudgetError
from bispectral_ot.memory import default_budget, format_bytes, parse_bytes


@dataclass(frozen=True)
class MemoryPlan:
    """How features and cost share the budget."""

    storage: Storage
    mapped_features: bool


def plan_memory(
    shape: tuple[int, int],
    n_features: int,
    *,
    working_memory: str | int | float | None = None,
    storage: Storage | None = None,
    solver_bytes: int = 0,
) -> MemoryPlan:
    """Choose before any work is done; the most exact storage first, memory-mapped features where that makes it fit.

    ``solver_bytes`` is what the solver takes beside features and cost.

    Raises
    ------
    MemoryBudgetError
        If nothing fits; the message says what would be needed.
    """
    feature_bytes = 4 * n_features * sum(shape)
    budget = default_budget() if working_memory is None else parse_bytes(working_memory)
    if solver_bytes:
        least = storage_bytes(shape, feature_bytes=0, block_rows=512).get(storage or "recompute", 0) + solver_bytes
        if least > budget:
            raise MemoryBudgetError(
                f"this solver forms dense matrices of {shape[0]:,} x {shape[1]:,} entries and needs "
                f"{format_bytes(solver_bytes)} for them, {format_bytes(least)} with the cost, but has a working memory "
                f"of {format_bytes(budget)}. Use Sinkhorn, which forms none, allow more, or take fewer elements."
            )
        budget -= solver_bytes
    for candidate in (storage,) if storage else STORAGES:
        for mapped in (False, True):
            try:
                choose_storage(
                    shape,
                    feature_bytes=0 if mapped else feature_bytes,
                    block_rows=512,
                    working_memory=budget,
                    storage=candidate,
                )
            except MemoryBudgetError:
                continue
            return MemoryPlan(candidate, mapped)
    choose_storage(shape, feature_bytes=0, block_rows=512, working_memory=budget, storage=storage)
    raise AssertionError("unreachable")
