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
BYTES_PER_ENTRY: dict[str, int] = {"float32": 4, "compact": 2, "recompute": 0, "float64": 8}

# Room for the solver's vectors, the interpreter and the libraries, in addition to what is counted exactly.
_OVERHEAD = 64 * 2**20
# Entries up to which a cost is kept as float32: beyond, 16 bits are read faster and take half of the memory.
_MOST_FLOAT32 = 2**28


class StoragePlan(NamedTuple):
    """Storage of a cost, and whether the features have to be in memory maps for it."""

    storage: Storage
    mapped_features: bool


def plan_storage(
    shape: tuple[int, int],
    *,
    feature_bytes: int,
    may_map: bool = False,  # whether features may go to memory maps, where they do not count
    solver_bytes: int = 0,
    block_rows: int = 256,
    storage: Storage | None = None,
    engine: Engine | None = None,
) -> StoragePlan:
    """Storage of a cost that fits the memory budget together with the features.

    It is float32 up to 1 GB, then compact, which is as fast, then recompute. The budget is that of
    :func:`bispectral_ot.runtime.current`; on a cluster, that of each worker. Where nothing fits, a
    :class:`~bispectral_ot.MemoryBudgetError` says what would be needed.

    ``shape`` is that of the largest cost; ``feature_bytes`` and ``solver_bytes`` are of all features and of the solver,
    and ``block_rows`` the rows of a block that is being worked on. A given ``storage`` needs no budget unless features
    may be mapped or the solver takes memory. On a cluster every worker has the features, and all together the cost.
    """
    memory = runtime.current().memory
    if storage is not None:
        check_choice("storage", storage, STORAGES)
        if memory is None and not solver_bytes and not may_map:
            return StoragePlan(storage, False)
    processes = 1 if engine is None else engine.processes
    free = default_budget() if engine is None else engine.budget()
    budget = free if memory is None else processes * memory
    feature_bytes *= processes
    others = (processes - 1) * storage_bytes(shape, feature_bytes=0, block_rows=block_rows)["recompute"]
    needs = storage_bytes(shape, feature_bytes=solver_bytes + others, block_rows=block_rows)
    by_size = STORAGES if shape[0] * shape[1] <= _MOST_FLOAT32 else STORAGES[1:]
    needs = {name: needs[name] for name in (by_size if storage is None else (storage,))}
    for candidate, need in needs.items():
        for mapped in (False, True) if may_map else (False,):
            if need + (0 if mapped else feature_bytes) <= budget:
                return StoragePlan(candidate, mapped)
    size = f"{shape[0]:,} x {shape[1]:,}"
    if solver_bytes:
        raise MemoryBudgetError(
            f"this solver forms dense matrices of {size} entries and needs {format_bytes(solver_bytes)} for them, "
            f"{format_bytes(min(needs.values()))} with the cost, but has a working memory of {format_bytes(budget)}. "
            "Use Sinkhorn, which forms none, allow more, or take fewer elements."
        )
    features = 0 if may_map else feature_bytes
    said = " or ".join(f"{format_bytes(need + features)} ({name})" for name, need in needs.items())
    raise MemoryBudgetError(
        f"a {size} cost does not fit into a working memory of {format_bytes(budget)}: it needs {said}, of which "
        f"{format_bytes(features)} are features. Allow more working memory, take fewer elements, or reduce the "
        "features (pca)."
    )


def storage_bytes(shape: tuple[int, int], *, feature_bytes: int, block_rows: int = 256) -> dict[Storage, int]:
    """Bytes that each storage needs, features and room to work in included."""
    fixed = feature_bytes + _OVERHEAD + core_count() * block_rows * shape[1] * 4
    return {storage: fixed + BYTES_PER_ENTRY[storage] * shape[0] * shape[1] for storage in STORAGES}
