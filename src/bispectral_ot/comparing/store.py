"""What a comparison has computed, kept in a folder: a comparison that was interrupted goes on where it was."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bispectral_ot.datasets import Dataset
from bispectral_ot.errors import InputError, RunExistsError
from bispectral_ot.files import to_json, whole_file, write_json

_RECIPE = "recipe.json"


class FolderStore(MutableMapping[str, dict[str, Any]]):
    """Dicts of arrays and numbers by name, one ``.npz`` file each, whole or absent.

    Parameters
    ----------
    folder
        Where the files are; made when something is kept.
    recipe
        What decides the results. A folder that was filled with another one is refused.
    overwrite
        Empty such a folder instead.
    """

    def __init__(self, folder: Path, recipe: dict[str, Any], *, overwrite: bool = False) -> None:
        self.folder, self._recipe, self._overwrite = folder, recipe, overwrite
        given = json.loads(to_json(recipe))
        path = folder / _RECIPE
        if path.is_file():
            kept = json.loads(path.read_text(encoding="utf-8"))
            differing = [key for key in given if kept.get(key) != given[key]]
            if differing and not overwrite:
                raise RunExistsError(
                    f"{folder} has parts of a comparison with other {', '.join(differing)}; choose another --out, ask "
                    "for the same, or compute all again with --overwrite."
                )
            if differing:
                self.clear()
        write_json(path, given)

    def within(self, name: str) -> FolderStore:
        """A store of the same recipe in a folder of this one."""
        return FolderStore(self.folder / name, self._recipe, overwrite=self._overwrite)

    def __getitem__(self, key: str) -> dict[str, Any]:
        if key not in self:
            raise KeyError(key)
        try:
            with np.load(self._path(key)) as file:
                return {name: file[name] for name in file.files}
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise InputError(f"{self._path(key)} cannot be read ({error}); delete it to go on.") from None

    def __setitem__(self, key: str, value: dict[str, Any]) -> None:
        with whole_file(self._path(key)) as partial, open(partial, "wb") as file:
            arrays: Any = {name: np.asarray(entry) for name, entry in value.items()}
            np.savez(file, **arrays)

    def __delitem__(self, key: str) -> None:
        self._path(key).unlink()

    def __contains__(self, key: object) -> bool:
        return self._path(str(key)).is_file()

    def __iter__(self) -> Iterator[str]:
        return iter([path.stem for path in sorted(self.folder.glob("[!.]*.npz"))])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.npz"


def fingerprints(datasets: Sequence[Dataset]) -> list[str]:
    """A short string for the content of each dataset: images, labels and classes."""
    found = []
    for dataset in datasets:
        digest = hashlib.blake2b(
            str((dataset.images.shape, dataset.images.dtype, dataset.classes)).encode(), digest_size=16
        )
        digest.update(np.ascontiguousarray(dataset.images).data)
        if dataset.labels is not None:
            digest.update(dataset.labels.data)
        found.append(digest.hexdigest())
    return found
