"""TIFF files with several pages, among them those of ImageJ and OME."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bispectral_ot.datasets.formats.axes import arranged
from bispectral_ot.datasets.image_file import Look
from bispectral_ot.datasets.image_files import ImageFiles
from bispectral_ot.datasets.keys import without_single_channel
from bispectral_ot.datasets.listing import Listing, Stack
from bispectral_ot.datasets.reading import library, reading
from bispectral_ot.errors import DatasetError
from bispectral_ot.memory import check_fits


def list_tiff(path: Path, split: str, keys: Sequence[str]) -> Listing:
    """Every page is an image; of files with named axes, all but ``y``, ``x`` and few channels count images."""
    tifffile = library("tifffile", extra="tiff", what=path)
    logging.getLogger("tifffile").addHandler(logging.NullHandler())  # it prints whatever it repairs
    with reading(path), tifffile.TiffFile(path) as file:
        series = list(file.series)
        for one in series:
            check_fits(math.prod(one.shape) * one.dtype.itemsize, str(path), "save a part of it")
        images = [np.asarray(arranged(one.axes, tuple(one.shape), str(path))(one.asarray())) for one in series]
    images = [without_single_channel(batch) for batch in images]
    if sum(map(len, images)) == 1:
        raise DatasetError(f"{path} is a single image; name the folder that holds the images.")
    if len(images) == 1:
        return Listing(Stack(images[0], str(path)), path.stem)
    pages = [page for batch in images for page in batch]
    names = [f"page {number}" for number in range(len(pages))]
    content = ImageFiles(pages, names, str(path), lambda page, _: Look.at(page), lambda page, _: (page, False))
    return Listing(content, path.stem, files=tuple(names))
