"""What travels to the workers of a cluster, and what they do with it."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from bispectral_ot.engines.engine import Block, BlockFunction, Reduced, put_together
from bispectral_ot.engines.threads import one_core


def pack(values: Any, *, large: int) -> tuple[bytes, list[Any]]:
    """Values as bytes, and what they refer to but do not contain: arrays of Dask, and those of ``large`` bytes or more.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.engines.tasks import pack, unpack
    >>> packed, arrays = pack({"unit": 2.0, "potentials": np.zeros(1000)}, large=8000)
    >>> len(packed) < 200, len(arrays)
    (True, 1)
    >>> unpack(packed, arrays)["unit"]
    2.0
    """
    file = io.BytesIO()
    packer = _packer()(file, large)
    packer.dump(values)
    return file.getvalue(), packer.arrays


@cache
def _packer() -> Any:
    import cloudpickle
    from dask import is_dask_collection

    class Packer(cloudpickle.Pickler):
        """Sets large arrays and those of Dask aside, each once."""

        def __init__(self, file: io.BytesIO, large: int) -> None:
            super().__init__(file)
            self.large = large
            self.arrays: list[Any] = []
            self._places: dict[int, int] = {}

        def persistent_id(self, value: Any) -> int | None:
            large = isinstance(value, np.ndarray) and value.nbytes >= self.large and not value.dtype.hasobject
            if not large and not is_dask_collection(value):
                return None
            if id(value) not in self._places:
                self._places[id(value)] = len(self.arrays)
                self.arrays.append(value)
            return self._places[id(value)]

    return Packer


class _Unpacker(pickle.Unpickler):
    def __init__(self, packed: bytes, arrays: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(packed))
        self.arrays = arrays

    def persistent_load(self, place: int) -> Any:
        return self.arrays[place]


def unpack(packed: bytes, arrays: Sequence[Any]) -> Any:
    """The values that :func:`pack` was given."""
    return _Unpacker(packed, arrays).load()


def given(array: Any) -> Any:
    """A task that only has a value."""
    return array


def add_parts(*parts: Reduced) -> Reduced:
    """A task that puts together what others gave."""
    return put_together(parts)


def map_group(*task: Any) -> list[Any]:
    """A task that gives the results of all blocks of a group."""
    with one_core(), _blas().limit(limits=1, user_api="blas"):
        return list(_results(*task))


def reduce_group(*task: Any) -> Reduced:
    """A task that puts together the results of all blocks of a group."""
    with one_core(), _blas().limit(limits=1, user_api="blas"):
        return put_together(_results(*task))


def _results(
    function: BlockFunction,
    blocks: list[tuple[int, int, int]],
    kept: list[Any] | None,
    packed_rows: bytes,
    n_row_references: int,
    packed_shared: bytes,
    *references: Any,
) -> Iterator[Any]:
    """Results of a group of blocks, one after the other."""
    rows = unpack(packed_rows, references[:n_row_references])
    shared = unpack(packed_shared, references[n_row_references:])
    first = blocks[0][0]
    for start, stop, place in blocks:
        block = Block(start, stop, None if kept is None else kept[place])
        yield function(block, *(values[start - first : stop - first] for values in rows), *shared)


@cache
def _blas() -> Any:
    """The BLAS libraries of this process; each of its threads runs a task, and needs no more of theirs."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
