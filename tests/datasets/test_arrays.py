from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bispectral_ot.datasets import load
from bispectral_ot.errors import DatasetError, InputError
from idx_files import write_idx

LABELS = np.array([0, 1, 0, 1, 2, 2, 2])


def test_npz_with_everything(tmp_path: Path, images: np.ndarray):
    np.savez(tmp_path / "set.npz", images=images, labels=LABELS, classes=["x", "y", "ü"])
    dataset = load(tmp_path / "set.npz")
    np.testing.assert_array_equal(dataset.images, images)
    np.testing.assert_array_equal(dataset.labels, LABELS)
    assert (dataset.name, dataset.classes) == ("set", ("x", "y", "ü"))


@pytest.mark.parametrize(
    ("images_key", "labels_key"),
    [("x", "y"), ("X", "y"), ("data", "targets"), ("x_train", "y_train"), ("train_images", "train_labels")],
)
def test_npz_under_other_names(tmp_path: Path, images: np.ndarray, images_key: str, labels_key: str):
    np.savez(tmp_path / "set.npz", **{images_key: images, labels_key: LABELS[:, None], "other": np.zeros(3)})
    dataset = load(tmp_path / "set.npz")
    np.testing.assert_array_equal(dataset.labels, LABELS)


def test_npz_with_two_splits(tmp_path: Path, images: np.ndarray):
    np.savez(tmp_path / "set.npz", x_train=images, y_train=LABELS, x_test=images[:2], y_test=LABELS[:2])
    assert len(load(tmp_path / "set.npz")) == 7
    assert len(load(tmp_path / "set.npz", split="test")) == 2


def test_npz_with_one_array_and_a_single_channel(tmp_path: Path, images: np.ndarray):
    np.savez(tmp_path / "set.npz", images[..., None])
    dataset = load(tmp_path / "set.npz")
    assert dataset.labels is None
    np.testing.assert_array_equal(dataset.images, images)


def test_npz_says_which_keys_it_has(tmp_path: Path, images: np.ndarray):
    np.savez(tmp_path / "set.npz", photos=images, kinds=LABELS)
    with pytest.raises(DatasetError, match=r"it has photos, kinds; expected 'images'"):
        load(tmp_path / "set.npz")
    np.savez(tmp_path / "set.npz", images=images)
    with pytest.raises(DatasetError, match="no images for the test split"):
        load(tmp_path / "set.npz", split="test")


def test_npy(tmp_path: Path, images: np.ndarray):
    np.save(tmp_path / "a.npy", images.astype(np.float64))
    dataset = load(tmp_path / "a.npy")
    assert dataset.images.dtype == np.float32
    np.testing.assert_array_equal(dataset.images, images)
    with pytest.raises(InputError, match="no test split"):
        load(tmp_path / "a.npy", split="test")


def test_python_objects_are_not_unpickled(tmp_path: Path):
    np.savez(tmp_path / "a.npz", images=np.array([{}], dtype=object))
    with pytest.raises(DatasetError, match="type object; expected images of real numbers"):
        load(tmp_path / "a.npz")
    np.save(tmp_path / "b.npy", np.array([{}], dtype=object))
    with pytest.raises(DatasetError, match="Python objects"):
        load(tmp_path / "b.npy")


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_idx_file_with_labels_beside(tmp_path: Path, images: np.ndarray, write_pair: Callable, packed: str):
    write_pair(tmp_path, f"train-images-idx3-ubyte{packed}", "train-labels-idx1-ubyte.gz", first_label=4)
    dataset = load(tmp_path / f"train-images-idx3-ubyte{packed}")
    np.testing.assert_array_equal(dataset.images, images)
    assert dataset.classes == (*"456789", "10")
    assert dataset.name == "train"
    (tmp_path / "train-labels-idx1-ubyte.gz").unlink()
    assert load(tmp_path / f"train-images-idx3-ubyte{packed}").labels is None


def test_idx_folder(tmp_path: Path, write_pair: Callable):
    write_pair(tmp_path, "train-images-idx3-ubyte", "train-labels-idx1-ubyte")
    assert len(load(tmp_path).classes) == 7
    with pytest.raises(DatasetError, match="no IDX files with images of the test split"):
        load(tmp_path, split="test")
    write_pair(tmp_path, "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")
    assert load(tmp_path, split="test").name == "t10k"
    write_pair(tmp_path, "other-train-images-idx3-ubyte", "other-train-labels-idx1-ubyte")
    with pytest.raises(DatasetError, match="2 IDX files with images of the train split"):
        load(tmp_path)


def test_idx_labels_that_do_not_fit(tmp_path: Path, images: np.ndarray, write_pair: Callable):
    write_pair(tmp_path, "train-images-idx3-ubyte", "train-labels-idx1-ubyte")
    write_idx(tmp_path / "train-images-idx3-ubyte", images[:3])
    with pytest.raises(DatasetError, match=r"train-labels-idx1-ubyte has labels of shape .7,., but .* has 3 images"):
        load(tmp_path / "train-images-idx3-ubyte")
    with pytest.raises(DatasetError, match="not images"):
        load(tmp_path / "train-labels-idx1-ubyte")
