"""Store of finished parts, keyed by content."""

from dataclasses import dataclass

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.store import Store, content_hash, dataset_hash


@dataclass(frozen=True)
class Result:
    values: np.ndarray
    error: float
    name: str | None = None


def test_a_result_is_computed_once_and_comes_back_with_its_types(tmp_path):
    first = Store(tmp_path / "cells").result(["a", 0.1], Result, lambda: Result(np.arange(3), 0.5))
    again = Store(tmp_path / "cells").result(["a", 0.1], Result, lambda: pytest.fail("computed again"))
    assert again.values.dtype == first.values.dtype
    assert (again.values.tolist(), again.error, again.name) == ([0, 1, 2], 0.5, None)
    other = Store(tmp_path / "cells").result(["a", 0.2], Result, lambda: Result(np.arange(2), 0.0))
    assert len(other.values) == 2


def test_a_damaged_file_is_computed_again_with_a_warning(tmp_path):
    store = Store(tmp_path)
    store.result("a", dict, lambda: {"x": 1})
    (path,) = tmp_path.iterdir()
    altered = path.read_bytes().replace(b'"\x00\x00\x00x', b'"\x00\x00\x00y')  # of the header: only the checksum tells
    for damage in (b"no archive", path.read_bytes()[:50], altered):
        path.write_bytes(damage)
        with pytest.warns(bot.DataWarning, match="computed again"):
            assert store.result("a", dict, lambda: {"x": 2}) == {"x": 2}
    assert store.result("a", dict, lambda: {"x": 3}) == {"x": 2}


def test_hashes_tell_types_shapes_and_nesting_apart():
    zeros = np.zeros(4, dtype=np.float32)
    parts = [1, 1.0, "1", True, None, [1], [[1]], [1, 1], {"a": 1}, zeros, zeros.reshape(2, 2), zeros.astype(int)]
    parts += [["ab", "c"], ["a", "bc"], np.zeros(5000), np.r_[np.zeros(4999), 1]]
    assert len({content_hash(part) for part in parts}) == len(parts)
    assert content_hash({"a": 1, "b": 2}) == content_hash({"b": 2, "a": 1})
    assert content_hash(np.arange(6)[::2]) == content_hash(np.array([0, 2, 4]))
    with pytest.raises(TypeError, match="cannot hash object"):
        content_hash(object())


def test_the_hash_of_a_dataset_is_that_of_pixels_labels_and_classes():
    images = np.arange(32.0).reshape(2, 4, 4)
    sets = [bot.Dataset(images), bot.Dataset(images, [0, 1]), bot.Dataset(images, [1, 0]), bot.Dataset(images + 1)]
    sets += [bot.Dataset(images, ["a", "b"])]
    assert len({*map(dataset_hash, sets)}) == 5
    assert dataset_hash(sets[0]) == dataset_hash(bot.Dataset(images.copy(), name="other", files=("a", "b")))
