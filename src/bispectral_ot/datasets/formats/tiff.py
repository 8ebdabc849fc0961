"""TIFF files with several pages, among them those of ImageJ and OME."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Sequence
from pathlib import Path

from bispectral_ot.datasets.array_names import arrange_axes
from bispectral_ot.datasets.io_errors import check_announced, library
from bispectral_ot.datasets.sources import ArraySource, FileSource, LazyDataset
from bispectral_ot.errors import DatasetError


def scan(path: Path, split: str, keys: Sequence[str]) -> LazyDataset:
    """Every page is an image; of files with named axes, all but ``y``, ``x`` and few channels count images."""
    tifffile = library("tifffile", extra="tiff", what=path)
    logging.getLogger("tifffile").addHandler(logging.NullHandler())  # it prints whatever it repairs
    with tifffile.TiffFile(path, _multifile=False) as file:
        announced = sum(math.prod(one.shape) * one.dtype.itemsize for one in file.series)
        check_announced(announced, path.stat().st_size, path)
        _refuse_other_files(file.ome_metadata or "", path)
        images = [arrange_axes(one.asarray(), one.axes, path) for one in file.series]
    if sum(map(len, images)) == 1:
        raise DatasetError(f"{path} is a single image; name the folder that holds the images.")
    if len(images) == 1:
        return LazyDataset(ArraySource(images[0], str(path)), path.stem)
    pages = [page for batch in images for page in batch]
    names = [f"page {number}" for number in range(len(pages))]
    return LazyDataset(FileSource(pages, names, str(path)), path.stem, files=tuple(names))


def _refuse_other_files(ome: str, path: Path) -> None:
    """Refuse OME metadata that take pages from other files: any file of the machine could be named."""
    own = re.search(r'<(?:\w+:)?OME\b[^>]*\bUUID="([^"]*)"', ome)
    for name, uuid in re.findall(r'<(?:\w+:)?UUID\b(?:[^>]*?\bFileName="([^"]*)")?[^>]*>\s*([^<\s]*)', ome):
        if uuid != own[1] if own else name not in ("", path.name):
            raise DatasetError(f"{path} names pages of other files ({name}), which are not read; save all in one file.")
