from __future__ import annotations

import numpy as np
import pytest

from bispectral_ot.cache import cache_folder
from bispectral_ot.groups import FiniteGroup, finite
from group_examples import alternating_table


def a4():
    return FiniteGroup.from_table(alternating_table())


def test_the_second_time_nothing_is_computed(own_cache, monkeypatch):
    first = a4()
    matrix, parts = first.clebsch_gordan(3, 3)
    monkeypatch.setattr(finite, "decompose", lambda *_: pytest.fail("irreps were computed again"))
    monkeypatch.setattr(finite, "clebsch_gordan_matrix", lambda *_: pytest.fail("matrices were computed again"))
    second = a4()
    for old, new in zip(first.irreps, second.irreps, strict=True):
        np.testing.assert_array_equal(old, new)
    np.testing.assert_array_equal(second.clebsch_gordan(3, 3)[0], matrix)
    assert parts == [0, 1, 2, 3, 3]
    assert len(list(own_cache.glob("*.npz"))) == 2
    assert not list(own_cache.glob("*.part"))


@pytest.mark.parametrize("damage", ["truncated", "text", "empty", "wrong numbers", "wrong shapes"])
def test_a_broken_file_is_computed_again(own_cache, damage):
    expected = a4().irreps
    (file,) = own_cache.glob("irreps-*.npz")
    whole = file.read_bytes()
    if damage == "wrong numbers":
        np.savez(file, **{f"{k:06d}": irrep + 1e-3 for k, irrep in enumerate(expected)})
    elif damage == "wrong shapes":
        np.savez(file, a=np.zeros(3))
    else:
        file.write_bytes({"truncated": whole[: len(whole) // 2], "text": b"hello", "empty": b""}[damage])
    for old, new in zip(expected, a4().irreps, strict=True):
        np.testing.assert_array_equal(old, new)
    assert file.read_bytes() == whole


def test_a_broken_clebsch_gordan_file_is_computed_again(own_cache):
    expected = a4().clebsch_gordan(3, 3)[0]
    (file,) = own_cache.glob("clebsch-gordan-*.npz")
    file.write_bytes(b"no archive")
    np.testing.assert_array_equal(a4().clebsch_gordan(3, 3)[0], expected)


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    blocker = tmp_path / "file"
    blocker.write_text("a file where the folder should be")
    monkeypatch.setenv("BISPECTRAL_OT_CACHE", str(blocker))
    assert a4().dimensions.tolist() == [1, 1, 1, 3]


def test_the_default_folder_is_the_users(monkeypatch):
    monkeypatch.delenv("BISPECTRAL_OT_CACHE")
    assert "bispectral-ot" in str(cache_folder("groups"))
