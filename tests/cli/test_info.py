"""What ``bispectral-ot info`` says, for a report of a problem."""

from __future__ import annotations

import bispectral_ot


def test_info(program, monkeypatch, tmp_path):
    monkeypatch.setenv("BISPECTRAL_OT_CACHE", str(tmp_path / "cache"))
    outcome = program("info")
    assert (outcome.code, outcome.stderr) == (0, "")
    for word in (bispectral_ot.__version__, "numpy", "threads", "hdf5 yes", "BISPECTRAL_OT_CACHE"):
        assert word in " ".join(outcome.stdout.split())
    found = program("info", "--json").json
    assert found["cache"] == str(tmp_path / "cache")
    assert found["threads"] >= 1
