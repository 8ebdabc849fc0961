"""Tar files: WebDataset's (``0001.jpg`` with ``0001.cls``), or a folder of images as it is."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from bispectral_ot.datasets.image_file import SUFFIXES, ImageInfo, decode_image, image_header
from bispectral_ot.datasets.io_errors import reading
from bispectral_ot.datasets.resize import Canvas
from bispectral_ot.datasets.sources import FileSource, LazyDataset
from bispectral_ot.errors import DatasetError

_LABEL_ENDINGS = (".cls", ".cls.txt", ".json")


class _Part(NamedTuple):
    """Where the bytes of a file are in the archive."""

    archive: Path
    start: int
    size: int

    def read(self) -> bytes:
        with open(self.archive, "rb") as file:
            file.seek(self.start)
            return file.read(self.size)


def scan(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """Images by name; labels from ``.cls`` or ``.json`` files of the same name, else from the folder of an image."""
    with reading(path), tarfile.open(path, "r:") as archive:  # packed archives cannot be read from the middle
        parts = {
            member.name.removeprefix("./"): _Part(path, member.offset_data, member.size)
            for member in _members(archive, path)
            if member.isreg() and not member.issparse() and not PurePosixPath(member.name).name.startswith(".")
        }
        names = sorted(name for name in parts if PurePosixPath(name).suffix.lower() in SUFFIXES)
        if not names:
            raise DatasetError(f"{path} has no images ({', '.join(SUFFIXES)}) among its {len(parts)} files.")
        labels = _labels(path, names, parts)
    items = [parts[name] for name in names]
    source = FileSource(items, names, str(path), _header, _decode)
    return LazyDataset(source, path.stem, labels, files=tuple(names))


def _members(archive: tarfile.TarFile, path: Path) -> Iterator[tarfile.TarInfo]:
    """Members in turn; a negative size would lead back to an earlier one, without end."""
    while (member := archive.next()) is not None:
        if member.size < 0:
            raise DatasetError(f"{path}: {member.name!r} has a size of {member.size}; the archive is damaged.")
        yield member


def _header(part: _Part, what: str) -> ImageInfo:
    return image_header(part.read(), what)


def _decode(part: _Part, what: str, canvas: Canvas) -> tuple[Any, bool]:
    return decode_image(part.read(), what, canvas)


def _labels(path: Path, names: list[str], parts: dict[str, _Part]) -> list[Any] | None:
    found = [_label(path, name, parts) for name in names]
    if all(label is None for label in found):
        folders = [PurePosixPath(name).parent.name for name in names]
        return folders if all(folders) and len(set(folders)) > 1 else None
    if None in found:
        raise DatasetError(
            f"{path}: {found.count(None)} of {len(names)} images have no label ({names[found.index(None)]}), though "
            "others have one; give all a .cls file, or none."
        )
    return found


def _label(path: Path, name: str, parts: dict[str, _Part]) -> str | int | None:
    """What the label file of the same name says; a name ends at its first dot."""
    image = PurePosixPath(name)
    stem = str(image.parent / image.name.partition(".")[0])
    for ending in _LABEL_ENDINGS:
        part = parts.get(stem + ending)
        if part is None:
            continue
        text = part.read().decode("utf-8").strip()
        if ending != ".json":
            return int(text) if text.lstrip("-").isdecimal() else text
        content = json.loads(text)
        label = content.get("label", content.get("cls")) if isinstance(content, dict) else None
        if isinstance(label, (str, int)):
            return label
    return None
