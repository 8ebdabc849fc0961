"""Cache folder of this machine: fetched datasets, irreps of groups, compiled kernels."""

from __future__ import annotations

import os
from pathlib import Path

from bispectral_ot.checks import user_path


def cache_folder(name: str) -> Path:
    """Folder ``name`` in ``$BISPECTRAL_OT_CACHE`` where that is set, else in the user's cache folder."""
    asked = os.environ.get("BISPECTRAL_OT_CACHE")
    if asked:
        return user_path(asked) / name
    import platformdirs

    return Path(platformdirs.user_cache_dir("bispectral-ot", appauthor=False)) / name
