"""Where this machine keeps what took long to get: fetched datasets, irreps of groups."""

from __future__ import annotations

import os
from pathlib import Path

from bispectral_ot.checks import user_path


def cache_folder(name: str) -> Path:
    """The folder ``name`` in ``$BISPECTRAL_OT_CACHE`` where that is set, else in the user's cache folder."""
    asked = os.environ.get("BISPECTRAL_OT_CACHE")
    if asked:
        return user_path(asked) / name
    import pooch

    return Path(pooch.os_cache("bispectral-ot")) / name
