"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Machines that run tests are busy: a slow example is no failure.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

# Run by `make test-all` only.
SLOW = (
    *("benchmarks/", "studies/", "engines/test_cluster_runs.py", "engines/test_cluster_sets.py"),
    *("engines/test_dask.py", "report/test_browser.py", "report/test_comparison_browser.py"),
    *("datasets/test_damaged_files.py", "cli/test_demo.py", "cli/test_other_users.py"),
    *("test_distribution.py", "test_docs.py", "test_notebook.py"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow files."""
    folder = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(folder) and item.path.relative_to(folder).as_posix().startswith(SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with the real training sets (IDX files); absent on most machines."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("BISPECTRAL_OT_DATA", beside))
    if not (folder / "mnist").is_dir():
        pytest.skip(f"the full training sets are not at {folder}; set BISPECTRAL_OT_DATA to a folder that has them")
    return folder
