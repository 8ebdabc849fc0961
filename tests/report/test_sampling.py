from __future__ import annotations

import numpy as np

from bispectral_ot.datasets import Dataset
from bispectral_ot.report.sampling import cell_by_cell, class_by_class, interleave

THREE = ("a", "b", "c")


def test_orders_begin_with_one_of_everything() -> None:
    dataset = Dataset(np.zeros((50, 2, 2), np.float32), labels=np.array([0] * 45 + [1] * 4 + [2]), classes=THREE)
    order = class_by_class(dataset, seed=0)
    assert sorted(order) == list(range(50))
    assert set(dataset.labels[order[:3]]) == {0, 1, 2}  # type: ignore[index]
    rows, columns = np.array([0, 0, 0, 0, 1, 1, 2]), np.array([0, 0, 0, 1, 1, 1, 0])
    first = cell_by_cell(rows, columns, seed=0)[:4]
    assert [(rows[i], columns[i]) for i in first[:2]] == [(0, 0), (1, 1)]
    assert len({(rows[i], columns[i]) for i in first}) == 4
    assert interleave(np.array([3, 1]), np.array([2, 3, 0])).tolist() == [3, 2, 1, 0]
