"""Irreps are cached in a folder of the test's own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BISPECTRAL_OT_CACHE", str(tmp_path))
    return tmp_path / "groups"
