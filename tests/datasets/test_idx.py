from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bispectral_ot.datasets.formats.array_files import is_idx_name, read_idx, read_idx_pair
from bispectral_ot.errors import DatasetError
from idx_files import write_idx


@given(
    st.sampled_from([np.uint8, np.int32, np.float32]).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=4, max_side=4))
    ),
    st.booleans(),
)
def test_what_was_written_is_read(tmp_path_factory, array: np.ndarray, packed: bool):
    path = tmp_path_factory.mktemp("idx") / ("a.idx.gz" if packed else "a.idx")
    write_idx(path, array)
    read = read_idx(path)
    np.testing.assert_array_equal(read, array)
    assert read.dtype == array.dtype
    assert read.dtype.isnative


def test_damaged_gzip_is_named(tmp_path: Path, images: np.ndarray):
    path = write_idx(tmp_path / "x-idx3-ubyte.gz", images)
    whole = path.read_bytes()
    for damaged in (
        whole[: len(whole) // 2],
        whole[:50] + bytes(20) + whole[70:],
        whole[:-6] + b"\x01" + whole[-5:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(DatasetError, match=r"x-idx3-ubyte\.gz.* (damaged|truncated or corrupt)"):
            read_idx(path)


def test_not_idx_missing_and_folder(tmp_path: Path):
    (tmp_path / "a.idx").write_bytes(b"\x89PNG....")
    with pytest.raises(DatasetError, match="not an IDX file"):
        read_idx(tmp_path / "a.idx")
    with pytest.raises(DatasetError, match="No such file"):
        read_idx(tmp_path / "b.idx")
    with pytest.raises(DatasetError, match="cannot read"):
        read_idx(tmp_path)


def test_only_official_emnist_names_are_turned_upright(tmp_path: Path, images: np.ndarray):
    official = write_idx(tmp_path / "emnist-letters-train-images-idx3-ubyte", images)
    other = write_idx(tmp_path / "train-images-idx3-ubyte", images)
    np.testing.assert_array_equal(read_idx_pair(official, None)[0], images.transpose(0, 2, 1))
    np.testing.assert_array_equal(read_idx_pair(other, None)[0], images)
    with pytest.raises(DatasetError, match="not images"):
        read_idx_pair(write_idx(tmp_path / "labels.idx", np.zeros(3, dtype=np.uint8)), None)


def test_names():
    for name in ("train-images-idx3-ubyte", "t10k-labels-idx1-ubyte.gz", "a.idx", "train-images.idx3-ubyte"):
        assert is_idx_name(name)
    for name in ("a.npz", "a.gz", "photo-idx3.png", "idx", "ubyte"):
        assert not is_idx_name(name)
