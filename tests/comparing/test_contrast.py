"""Changed, or merely turned."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.comparing import Contrast, contrast
from bispectral_ot.comparing.contrast import SYMMETRIES


@pytest.fixture(scope="module")
def halves():
    return bot.split_halves(bot.load("digits"), per_class=15)


@pytest.mark.parametrize("name", ["mirrors", "quarter turns", "d4", "translation"])
def test_moves_are_elements_of_the_group(name):
    images = np.arange(20 * 16).reshape(20, 4, 4).astype(np.float32)
    random = np.random.default_rng(0)
    dataset = bot.Dataset(images)
    for move in SYMMETRIES[name].moves:
        dataset = move(dataset, random)
    turns = [np.rot90(images, k, axes=(1, 2)) for k in range(4)]
    orbits = {
        "mirrors": [images, images[:, :, ::-1]],
        "quarter turns": turns,
        "d4": turns + [turn[:, :, ::-1] for turn in turns],
        "translation": [np.roll(images, (i, j), axis=(1, 2)) for i in range(4) for j in range(4)],
    }[name]
    hits = np.stack([(dataset.images == other).all(axis=(1, 2)) for other in orbits])
    assert (hits.sum(axis=0) == 1).all()
    assert (hits.sum(axis=1) > 0).sum() > 1  # and not always the same


def test_mirrored_images_agree_up_to_mirrors(halves):
    found = contrast(halves[0], halves[1].images[:, :, ::-1], symmetries=["mirrors", "rotation"], permutations=39)
    assert list(found.p_values) == ["none", "mirrors", "rotation"]
    assert found.p_values["none"] == 1 / 40
    assert found.smallest == "mirrors"
    assert "no difference is found up to mirrors" in found.sentence


def test_nothing_changed(halves):
    found = contrast(*halves, symmetries=[], permutations=39)
    assert found.smallest == "none"
    assert "No difference" in found.sentence


def test_other_content_is_seen_under_every_symmetry(halves):
    few = halves[1].select(halves[1].labels < 3)
    found = contrast(halves[0], few, symmetries=["d4", "rotation", "rotation-reflection"], permutations=99)
    assert found.smallest is None
    assert "content has changed" in found.sentence


def test_a_group_is_refuted_by_larger_ones():
    found = Contrast("one", "other", {"none": 0.01, "d4": 0.5, "rotation-reflection": 0.005}, {}, level=0.05)
    assert found.smallest is None
    found = Contrast("one", "other", {"none": 0.01, "d4": 0.5, "rotation": 0.005}, {}, level=0.05)
    assert found.smallest == "d4"  # which rotations do not include


def test_bad_input_is_explained(halves):
    with pytest.raises(bot.InputError, match="unknown symmetry"):
        contrast(*halves, symmetries=["scaling"])
    with pytest.raises(bot.InputError, match="square"):
        contrast(halves[0].images[:, :6], halves[1].images[:, :6], symmetries=["d4"])


def test_a_contrast_goes_on_where_it_was(halves, monkeypatch):
    done = {}
    first = contrast(*halves, symmetries=["mirrors"], permutations=19, done=done)
    assert set(done) == {"none", "mirrors"}
    monkeypatch.setattr(sys.modules[contrast.__module__], "compare", None)
    assert contrast(*halves, symmetries=["mirrors"], permutations=19, done=done) == first
