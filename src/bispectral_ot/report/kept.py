"""What a run keeps for its page: JSON and pictures in one file, which may come back damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.errors import InputError
from bispectral_ot.files import to_json, whole_file

Kept = TypeVar("Kept")


def save_kept(path: Path, content: dict[str, Any], **pictures: NDArray[np.uint8]) -> None:
    """Write the content and its pictures as one ``.npz`` file, whole or not at all."""
    text = to_json(content).encode("utf-8", "backslashreplace")
    arrays: Any = {"content": np.frombuffer(text, dtype=np.uint8), **pictures}
    with whole_file(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **arrays)


def load_kept(path: Path, build: Callable[..., Kept], *pictures: str) -> Kept:
    """``build(content, *pictures)`` of a file; whatever goes wrong is an :class:`InputError` that names it."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return build(json.loads(arrays["content"].tobytes()), *(arrays[name] for name in pictures))
    except Exception as error:  # NumPy, zipfile and its decompressors raise whatever they like on a damaged file
        raise InputError(
            f"{path} is damaged, or not the data of a report ({error}); make the run again for it. Its "
            "results.json, tables and figures are not affected."
        ) from error
