"""Small datasets written to disk, in the ways that users keep them."""

import numpy as np
import pytest

from idx_files import write_idx


@pytest.fixture
def images():
    """Seven 28 x 28 images in which no two rows, columns or images are alike."""
    return np.random.default_rng(5).integers(0, 256, (7, 28, 28), dtype=np.uint8)


@pytest.fixture
def write_pair(images):
    """Write an images file and a labels file of a split into a folder."""

    def write(folder, images_name, labels_name, *, first_label=0):
        write_idx(folder / images_name, images)
        write_idx(folder / labels_name, (np.arange(7) + first_label).astype(np.uint8))
        return folder

    return write


@pytest.fixture(autouse=True)
def _no_machine_settings(monkeypatch, tmp_path):
    """Neither this machine's data folder nor its cache may decide a test."""
    for variable in ("BISPECTRAL_OT_DATA", "BISPECTRAL_OT_CACHE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name, **_: str(tmp_path / "cache" / name))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
