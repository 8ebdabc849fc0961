import numpy as np
import pytest

from bispectral_ot.sampling import balanced_rows, class_by_class, evenly_spaced, random_rows


def test_evenly_spaced_rows_reach_both_ends_and_random_ones_follow_their_seed():
    for n in (1, 2, 3, 10, 4097, 10**6):
        for size in (1, 2, 7, 4096):
            rows = evenly_spaced(n, size)
            assert len(rows) == min(n, size) == len(set(rows.tolist()))
            assert rows[0] == 0
            assert size == 1 or rows[-1] == n - 1
    rows = random_rows(100, 10, seed=[3, 1])
    assert len(set(rows.tolist())) == 10
    assert (np.diff(rows) > 0).all()
    assert not np.array_equal(rows, random_rows(100, 10, seed=[3, 2]))


@pytest.mark.parametrize("size", [1, 3, 10, 57, 130])
def test_balanced_rows_cut_large_classes_to_the_largest_number_that_fits(size: int):
    counts = np.array([40, 3, 17, 80, 1])
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(5), counts))
    fitting = [cut for cut in range(1, 81) if np.minimum(counts, cut).sum() <= size]
    taken = np.bincount(labels[balanced_rows(labels, size)], minlength=5)
    np.testing.assert_array_equal(taken, np.minimum(counts, max(fitting, default=1)))


def test_class_by_class_begins_with_one_of_each():
    labels = np.array(["a"] * 50 + ["b"] * 2 + ["c"] * 3)
    order = class_by_class(labels, 55, seed=1)
    assert sorted(order.tolist()) == list(range(55))
    assert sorted(labels[order[:3]]) == sorted(labels[order[3:6]]) == ["a", "b", "c"]
    assert sorted(labels[order[6:8]]) == ["a", "c"]
