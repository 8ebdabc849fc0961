"""Storage of a cost within a memory budget."""

from __future__ import annotations

from typing import NamedTuple, get_args

from bispectral_ot import runtime
from bispectral_ot.checks import check_choice
from bispectral_ot.engines import Engine, core_count
from bispectral_ot.errors import MemoryBudgetError
from bispectral_ot.literals import Storage
from bispectral_ot.memory import default_budget, format_bytes

STORAGES: tuple[Storage, ...] = get_args(Storage)
BYTES_PER_ENTRY: dict[Storage, int] = {"float32": 4, "compact": 2, "recompute": 0}

# Room for the solver's vectors, the interpreter and the libraries, in addition to what is counted exactly.
_OVERHEAD = 64 * 2**20


class StoragePlan(NamedTuple):
    """How the cost is kept, and whether the features have to be in memory maps for it."""

    storage: Storage
    mapped_features: bool


def plan_storage(
    shape: tuple[int, int],
    *,
    feature_bytes: int,
    may_map: bool = False,
    solver_bytes: int = 0,
    block_rows: int = 256,
    storage: Storage | None = None,
    engine: Engine | None = None,
) -> StoragePlan:
    """Most exact storage that fits the memory budget together with the features.

    The budget is that of :func:`bispectral_ot.runtime.current`; on a cluster, that of each worker.

    Parameters
    ----------
    shape
        (n, m) of the largest cost.
    feature_bytes
        Of all features that are kept.
    may_map
        Whether features may go to memory maps, where they do not count.
    solver_bytes
        What the solver takes in addition to features and cost.
    block_rows
        Rows of a block that is being worked on.
    storage
        Storage by name, which needs no budget unless features may be mapped or the solver takes memory.
    engine
        Where blocks are kept: on a cluster every worker has the features, and all together the cost.

    Raises
    ------
    MemoryBudgetError
        If nothing fits; the message says what would be needed.

    Examples
    --------
    >>> from bispectral_ot import runtime
    >>> with runtime.running(memory="1GB"):
    ...     plan_storage((1000, 1000), feature_bytes=0).storage
    'float32'
    """
    memory = runtime.current().memory
    if storage is not None:
        check_choice("storage", storage, STORAGES)
        if memory is None and not solver_bytes and not may_map:
            return StoragePlan(storage, False)
    processes = 1 if engine is None else engine.processes
    free = default_budget() if engine is None else engine.budget()
    budget = free if memory is None else processes * memory
    candidates = STORAGES if storage is None else (storage,)
    feature_bytes *= processes
    fixed = solver_bytes + processes * _scratch_bytes(shape, block_rows)
    needs = {candidate: fixed + BYTES_PER_ENTRY[candidate] * shape[0] * shape[1] for candidate in candidates}
    for candidate in candidates:
        for mapped in (False, True) if may_map else (False,):
            if needs[candidate] + (0 if mapped else feature_bytes) <= budget:
                return StoragePlan(candidate, mapped)
    raise MemoryBudgetError(_nothing_fits(shape, needs, 0 if may_map else feature_bytes, solver_bytes, fixed, budget))


def storage_bytes(shape: tuple[int, int], *, feature_bytes: int, block_rows: int = 256) -> dict[Storage, int]:
    """Bytes that each storage needs, features and scratch included."""
    fixed = feature_bytes + _scratch_bytes(shape, block_rows)
    return {storage: fixed + size * shape[0] * shape[1] for storage, size in BYTES_PER_ENTRY.items()}


def _scratch_bytes(shape: tuple[int, int], block_rows: int) -> int:
    return _OVERHEAD + core_count() * block_rows * shape[1] * 4


def _nothing_fits(
    shape: tuple[int, int],
    needs: dict[Storage, int],
    feature_bytes: int,
    solver_bytes: int,
    fixed: int,
    budget: int,
) -> str:
    size = f"{shape[0]:,} x {shape[1]:,}"
    if solver_bytes:
        return (
            f"this solver forms dense matrices of {size} entries and needs {format_bytes(solver_bytes)} for them, "
            f"{format_bytes(min(needs.values()))} with the cost, but has a working memory of {format_bytes(budget)}. "
            "Use Sinkhorn, which forms none, allow more, or take fewer elements."
        )
    said = " or ".join(f"{format_bytes(need + feature_bytes)} ({storage})" for storage, need in needs.items())
    return (
        f"a {size} cost does not fit into a working memory of {format_bytes(budget)}: it needs {said}, of which "
        f"{format_bytes(feature_bytes)} are features and {format_bytes(fixed)} room to work in (libraries, the "
        "solver, blocks of distances). Allow more working memory, take fewer elements, or reduce the features (pca)."
    )
