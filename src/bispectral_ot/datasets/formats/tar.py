"""Tar files: WebDataset's (``0001.jpg`` with ``0001.cls``), or a folder of images as it is."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from bispectral_ot.datasets.image_file import SUFFIXES
from bispectral_ot.datasets.sources import FileSource, LazyDataset
from bispectral_ot.errors import DatasetError

_LABEL_ENDINGS = (".cls", ".cls.txt", ".json")


def scan(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """Images by name; labels from ``.cls`` or ``.json`` files of the same name, else from the folder of an image."""
    parts: dict[str, Callable[[], bytes]] = {}
    with tarfile.open(path, "r:") as archive:  # packed archives cannot be read from the middle
        while (member := archive.next()) is not None:
            if member.size < 0:  # would lead back to an earlier member, without end
                raise DatasetError(f"{path}: {member.name!r} has a size of {member.size}; the archive is damaged.")
            if member.isreg() and not member.issparse() and not PurePosixPath(member.name).name.startswith("."):
                parts[member.name.removeprefix("./")] = partial(_read, path, member.offset_data, member.size)
    names = sorted(name for name in parts if PurePosixPath(name).suffix.lower() in SUFFIXES)
    if not names:
        raise DatasetError(f"{path} has no images ({', '.join(SUFFIXES)}) among its {len(parts)} files.")
    labels: Any = [_label(name, parts) for name in names]
    missing = labels.count(None)
    if missing == len(names):
        folders = [PurePosixPath(name).parent.name for name in names]
        labels = folders if all(folders) and len(set(folders)) > 1 else None
    elif missing:
        raise DatasetError(
            f"{path}: {missing} of {len(names)} images have no label ({names[labels.index(None)]}), though others have "
            "one; give all a .cls file, or none."
        )
    source = FileSource([parts[name] for name in names], names, str(path), lambda read: read())
    return LazyDataset(source, path.stem, labels, files=tuple(names))


def _read(archive: Path, start: int, size: int) -> bytes:
    with open(archive, "rb") as file:
        file.seek(start)
        return file.read(size)


def _label(name: str, parts: dict[str, Callable[[], bytes]]) -> str | int | None:
    """Content of the label file of the same name; a name ends at its first dot."""
    image = PurePosixPath(name)
    stem = str(image.parent / image.name.partition(".")[0])
    for ending in _LABEL_ENDINGS:
        if stem + ending in parts:
            label: Any = parts[stem + ending]().decode("utf-8").strip()
            if ending != ".json":
                return int(label) if label.lstrip("-").isdecimal() else label
            content = json.loads(label)
            label = content.get("label", content.get("cls")) if isinstance(content, dict) else None
            if isinstance(label, (str, int)):
                return label
    return None
