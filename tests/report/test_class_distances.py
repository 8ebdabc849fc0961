from __future__ import annotations

import numpy as np

import bispectral_ot as bot
from bispectral_ot.report.class_distances import class_distances


def test_class_distances_are_means_of_the_cost() -> None:
    random = np.random.default_rng(0)
    matrix = random.random((6, 5)).astype(np.float32)
    rows, columns = np.array([0, 1, 0, 1, 0, 0]), np.array([2, 0, 1, 1, 2])
    found = class_distances(bot.Cost.from_matrix(matrix), rows, columns, np.arange(6))
    literal = [[matrix[np.ix_(rows == i, columns == j)].mean() for j in range(3)] for i in range(2)]
    np.testing.assert_allclose(found.means, literal, rtol=1e-6)
    assert found.rows_read == 6
