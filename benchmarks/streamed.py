"""Best matches and labels of very many sources in a file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.costs import PlanSummary
from bispectral_ot.errors import InputError
from bispectral_ot.files import whole_file
from bispectral_ot.transport import EntropicCoupling

Columns = dict[str, NDArray[Any]]
# Sources that are written together.
_ROWS = 2**16


def write_matches(
    coupling: EntropicCoupling,
    path: str | Path,
    *,
    k: int = 5,
    target_labels: NDArray[Any] | None = None,
) -> None:
    """Write the k best targets of each source, and the label that it gets, to a CSV or Parquet file.

    A row for each source: ``source``, ``target_1`` and its share of the source's mass ``share_1``, ... and, where the
    targets have labels, ``label`` and its share ``label_share``. The file appears when it is whole.

    Parameters
    ----------
    path
        Ends with ``.csv`` or ``.parquet`` (which needs pyarrow).
    target_labels
        (m,) names of classes.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from bispectral_ot import Sinkhorn
    >>> from benchmarks.streamed import write_matches
    >>> path = Path(tempfile.mkdtemp()) / "matches.csv"
    >>> write_matches(Sinkhorn(reg=0.02).solve([[0.0, 1.0], [1.0, 0.0]]), path, k=1)
    >>> print(path.read_text())
    source,target_1,share_1
    0,0,1
    1,1,1
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise InputError(f"matches are written to a .csv or a .parquet file, got {str(path)!r}.")
    if not isinstance(coupling, EntropicCoupling):
        raise InputError(f"only a plan of potentials has so many sources, got {coupling!r}; solve with Sinkhorn.")
    names, codes = (None, None) if target_labels is None else np.unique(target_labels, return_inverse=True)
    with whole_file(path) as partial, (_parquet if suffix == ".parquet" else _csv)(partial) as write:
        columns = _columns(coupling.summary(k=k, target_labels=codes), coupling.source_weights, names)
        for start in range(0, coupling.shape[0], _ROWS):
            write({name: values[start : start + _ROWS] for name, values in columns.items()})


def _columns(read: PlanSummary, weights: NDArray[np.float64], names: NDArray[Any] | None) -> Columns:
    mass = np.where(weights > 0, weights, 1.0)
    columns: Columns = {"source": np.arange(len(weights))}
    for place in range(read.top_indices.shape[1]):
        columns[f"target_{place + 1}"] = read.top_indices[:, place]
        columns[f"share_{place + 1}"] = (read.top_masses[:, place] / mass).astype(np.float32)
    if names is not None:
        columns["label"] = names[read.source_class_mass.argmax(axis=1)]
        columns["label_share"] = (read.source_class_mass.max(axis=1) / mass).astype(np.float32)
    return columns


@contextmanager
def _csv(path: Path) -> Iterator[Any]:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")

        def write(columns: Columns) -> None:
            if file.tell() == 0:
                writer.writerow(columns)
            values = [
                [f"{value:.6g}" for value in column] if column.dtype.kind == "f" else column.tolist()
                for column in columns.values()
            ]
            writer.writerows(zip(*values, strict=True))

        yield write


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError("Parquet files need pyarrow: pip install pyarrow, or write a .csv file.") from None
    writer: Any = None

    def write(columns: Columns) -> None:
        nonlocal writer
        table = pa.table(
            {
                name: pa.array(column.tolist() if column.dtype.kind in "UO" else column)
                for name, column in columns.items()
            }
        )
        if writer is None:
            writer = pq.ParquetWriter(path, table.schema)
        writer.write_table(table)

    yield write
    if writer is not None:
        writer.close()
