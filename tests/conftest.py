"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Machines that run tests are busy: a slow example is no failure.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with the real training sets (IDX files); absent on most machines."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("BISPECTRAL_OT_DATA", beside))
    if not (folder / "mnist").is_dir():
        pytest.skip(f"the full training sets are not at {folder}; set BISPECTRAL_OT_DATA to a folder that has them")
    return folder
