"""Arrays in files: ``.npz``, ``.npy`` and IDX."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bispectral_ot.datasets import load
from bispectral_ot.datasets.formats.array_files import read_idx
from bispectral_ot.errors import DatasetError
from idx_files import write_idx

LABELS = np.array([0, 1, 0, 1, 2, 2, 2])


@pytest.mark.parametrize(
    ("images_key", "labels_key"),
    [("images", "labels"), ("X", "y"), ("data", "targets"), ("train_images", "train_labels")],
)
def test_npz_under_other_names(tmp_path, images, images_key, labels_key):
    arrays = {images_key: images[..., None], labels_key: LABELS[:, None], "z": np.zeros(3), "classes": ["x", "y", "ü"]}
    np.savez(tmp_path / "set.npz", **arrays)
    dataset = load(tmp_path / "set.npz")
    assert (dataset.name, dataset.classes) == ("set", ("x", "y", "ü"))
    np.testing.assert_array_equal(dataset.images, images)
    np.testing.assert_array_equal(dataset.labels, LABELS)


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_idx_file_with_labels_beside(tmp_path, images, write_pair, packed):
    write_pair(tmp_path, f"train-images-idx3-ubyte{packed}", "train-labels-idx1-ubyte.gz", first_label=4)
    dataset = load(tmp_path / f"train-images-idx3-ubyte{packed}")
    np.testing.assert_array_equal(dataset.images, images)
    assert dataset.classes == (*"456789", "10")
    assert dataset.name == "train"
    (tmp_path / "train-labels-idx1-ubyte.gz").unlink()
    assert load(tmp_path / f"train-images-idx3-ubyte{packed}").labels is None


def test_idx_folder(tmp_path, write_pair):
    write_pair(tmp_path, "train-images-idx3-ubyte", "train-labels-idx1-ubyte")
    assert len(load(tmp_path).classes) == 7
    with pytest.raises(DatasetError, match="no IDX files with images of the test split"):
        load(tmp_path, split="test")
    write_pair(tmp_path, "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")
    assert load(tmp_path, split="test").name == "t10k"
    with pytest.raises(DatasetError, match="no IDX files with images of the val split"):
        load(tmp_path, split="val")
    write_pair(tmp_path, "val-images-idx3-ubyte", "val-labels-idx1-ubyte")
    assert load(tmp_path, split="val").name == "val"
    write_pair(tmp_path, "other-train-images-idx3-ubyte", "other-train-labels-idx1-ubyte")
    with pytest.raises(DatasetError, match="2 IDX files with images of the train split"):
        load(tmp_path)


def test_idx_labels_that_do_not_fit(tmp_path, images, write_pair):
    write_pair(tmp_path, "train-images-idx3-ubyte", "train-labels-idx1-ubyte")
    write_idx(tmp_path / "train-images-idx3-ubyte", images[:3])
    with pytest.raises(DatasetError, match=r"train-labels-idx1-ubyte has labels of shape .7,., but .* has 3 images"):
        load(tmp_path / "train-images-idx3-ubyte")
    with pytest.raises(DatasetError, match="not images"):
        load(tmp_path / "train-labels-idx1-ubyte")


@given(
    st.sampled_from([np.uint8, np.int32, np.float32]).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=4, max_side=4))
    ),
    st.booleans(),
)
def test_what_was_written_is_read(tmp_path_factory, array, packed):
    path = tmp_path_factory.mktemp("idx") / ("a.idx.gz" if packed else "a.idx")
    write_idx(path, array)
    read = read_idx(path)
    np.testing.assert_array_equal(read, array)
    assert read.dtype == array.dtype
    assert read.dtype.isnative


def test_damaged_gzip_is_named(tmp_path, images):
    path = write_idx(tmp_path / "x-idx3-ubyte.gz", images)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:50] + bytes(20) + whole[70:], whole[:-6] + b"\x01" + whole[-5:]):
        path.write_bytes(damaged)
        with pytest.raises(DatasetError, match=r"x-idx3-ubyte\.gz.* (damaged|truncated or corrupt)"):
            read_idx(path)
