from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bispectral_ot.datasets import load
from bispectral_ot.errors import DatasetError
from idx_files import write_idx

TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
EMNIST = ("emnist-letters-train-images-idx3-ubyte", "emnist-letters-train-labels-idx1-ubyte")


@pytest.mark.parametrize(
    ("name", "place", "packed"),
    [("mnist", ".", ""), ("fashion-mnist", "fashion-mnist", ".gz")],
)
def test_every_layout(tmp_path: Path, images: np.ndarray, write_pair: Callable, name: str, place: str, packed: str):
    write_pair(tmp_path / place, TEST[0] + packed, TEST[1] + packed)
    dataset = load(name, split="test", root=tmp_path)
    np.testing.assert_array_equal(dataset.images, images)
    np.testing.assert_array_equal(dataset.labels, np.arange(7))
    assert dataset.name == f"{name}-assembled"
    assert len(dataset.classes) == 10


def test_the_variable_names_the_folder(tmp_path: Path, write_pair: Callable, monkeypatch: pytest.MonkeyPatch):
    write_pair(tmp_path / "mnist", *TRAIN)
    monkeypatch.setenv("BISPECTRAL_OT_DATA", str(tmp_path))
    assert len(load("mnist")) == 7


def test_assembled_emnist_is_upright_and_says_so(tmp_path: Path, images: np.ndarray, write_pair: Callable):
    write_pair(tmp_path / "emnist-letters", *TRAIN, first_label=1)
    dataset = load("emnist-letters", root=tmp_path)
    np.testing.assert_array_equal(dataset.images, images)
    assert dataset.name == "emnist-letters-assembled"


def test_mnist_files_are_not_taken_for_letters(tmp_path: Path, write_pair: Callable):
    write_pair(tmp_path, *TRAIN)
    with pytest.raises(DatasetError, match="no train split of emnist-letters"):
        load("emnist-letters", root=tmp_path)
    write_pair(tmp_path / "emnist-letters", *TRAIN)
    with pytest.raises(DatasetError, match="labels that emnist-letters does not have"):
        load("emnist-letters", root=tmp_path)


def test_a_flat_folder_of_another_set_is_recognised(tmp_path: Path):
    first_of_mnist = np.array([5, 0, 4, 1, 9, 2, 1, 3, 1, 4], dtype=np.uint8)
    write_idx(tmp_path / TRAIN[0], np.zeros((10, 28, 28), dtype=np.uint8))
    write_idx(tmp_path / TRAIN[1], first_of_mnist)
    assert len(load("mnist", root=tmp_path)) == 10
    with pytest.raises(DatasetError, match="belongs to mnist, not to kmnist"):
        load("kmnist", root=tmp_path)


@pytest.mark.parametrize(
    ("name", "known_as", "count", "smallest_class"),
    [
        ("mnist", "mnist", 60_000, 5421),
        ("fashion-mnist", "fashion-mnist", 60_000, 6000),
        ("kmnist", "kmnist", 60_000, 6000),
        ("emnist-letters", "emnist-letters-assembled", 106_848, 1140),
    ],
)
def test_the_real_sets(shared_data: Path, name: str, known_as: str, count: int, smallest_class: int):
    dataset = load(name, root=shared_data)
    assert (dataset.name, dataset.images.shape) == (known_as, (count, 28, 28))
    assert dataset.class_counts.min() == smallest_class
