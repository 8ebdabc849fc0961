"""What ``bispectral-ot info`` says, for a report of a problem."""

from __future__ import annotations

import tomllib
from pathlib import Path

import bispectral_ot
from bispectral_ot.cli.info import EXTRAS

PROJECT = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_info(program, monkeypatch, tmp_path):
    monkeypatch.setenv("BISPECTRAL_OT_CACHE", str(tmp_path / "cache"))
    outcome = program("info")
    assert (outcome.code, outcome.stderr) == (0, "")
    for word in (bispectral_ot.__version__, "numpy", "threads", "hdf5 yes", "BISPECTRAL_OT_CACHE"):
        assert word in " ".join(outcome.stdout.split())
    found = program("info", "--json").json
    assert found["cache"] == str(tmp_path / "cache")
    assert found["threads"] >= 1


def test_every_extra_for_users_is_listed():
    sums = {"all", "dev", "docs", "files"}  # for developers, and of other extras
    assert set(EXTRAS) == set(PROJECT["optional-dependencies"]) - sums
