"""Parts of a comparison in a folder."""

from __future__ import annotations

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.comparing.store import FolderStore, fingerprints


def test_what_is_kept_comes_back(tmp_path):
    store = FolderStore(tmp_path / "cells", {"reg": 0.1})
    store["a"] = {"values": np.arange(3.0), "error": 0.5, "converged": True}
    again = FolderStore(tmp_path / "cells", {"reg": 0.1})
    assert list(again) == ["a"]
    assert again["a"]["values"].tolist() == [0, 1, 2]
    assert float(again["a"]["error"]) == 0.5
    assert "b" not in again


def test_another_recipe_is_refused_or_empties_the_folder(tmp_path):
    FolderStore(tmp_path, {"reg": 0.1, "seed": 0})["a"] = {"x": 1}
    with pytest.raises(bot.RunExistsError, match="other reg"):
        FolderStore(tmp_path, {"reg": 0.2, "seed": 0})
    assert len(FolderStore(tmp_path, {"reg": 0.2, "seed": 0}, overwrite=True)) == 0


def test_a_damaged_part_is_named(tmp_path):
    store = FolderStore(tmp_path, {})
    (tmp_path / "a.npz").write_bytes(b"no archive")
    with pytest.raises(bot.InputError, match=r"a\.npz"):
        store["a"]


def test_fingerprints_see_images_and_labels():
    images = np.arange(32.0).reshape(2, 4, 4)
    sets = [bot.Dataset(images), bot.Dataset(images, [0, 1]), bot.Dataset(images, [1, 0]), bot.Dataset(images + 1)]
    assert len(set(fingerprints(sets))) == 4
    assert fingerprints(sets[:1]) == fingerprints([bot.Dataset(images.copy())])
