"""The built sdist and wheel: what is in them, and whether the tests in the sdist find all they need."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import bispectral_ot

ROOT = Path(__file__).resolve().parents[1]
pytest.importorskip("build", reason="build and hatchling come with the extra dev")
pytest.importorskip("hatchling", reason="build and hatchling come with the extra dev")


def run(*words: str, cwd: Path, **environment: str) -> str:
    command, environment = [sys.executable, *words], {**os.environ, **environment}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run("-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT), cwd=folder)
    return folder


@pytest.fixture(scope="module")
def unpacked(dist: Path) -> Path:
    """The folder of the unpacked sdist."""
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(dist, filter="data")
    return dist / archive.name.removesuffix(".tar.gz")


def test_the_wheel_holds_the_package_and_nothing_else(dist: Path):
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    source, shipped = ROOT / "src", {name for name in names if ".dist-info/" not in name}
    kept = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    assert shipped == {name for name in kept if name.startswith("bispectral_ot/") and "__pycache__" not in name}
    assert {"bispectral_ot/py.typed", "bispectral_ot/report/assets/page.html"} <= shipped
    assert f"\nVersion: {bispectral_ot.__version__}\n" in metadata
    pytest.importorskip("twine")
    run("-m", "twine", "check", "--strict", *map(str, dist.glob("*.*")), cwd=dist)


def test_the_sdist_holds_every_file_of_the_repository_but_those_of_ci(unpacked: Path):
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a checkout")
    expected = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
    shipped = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    left = {name for name in expected - shipped if not name.startswith(".github/")}
    assert left == {".ci/run", ".pre-commit-config.yaml"}


def test_the_tests_in_the_sdist_find_what_they_need(unpacked: Path):
    """All of them are collected, so all their imports work; those that read files next to the package are run."""
    environment = {"PYTHONPATH": str(unpacked / "src"), "PYTEST_ADDOPTS": ""}
    chosen = "test_docs and (filled or links)"
    printed = run("-m", "pytest", "-v", "-p", "no:xdist", "-k", chosen, cwd=unpacked, **environment)
    passed, left = map(int, re.search(r"(\d+) passed, (\d+) deselected", printed).groups())
    assert passed > 10
    assert left > 1000
