"""Zarr stores: arrays by name; of OME-Zarr the image at full resolution, or the fields of a plate."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.formats.axes import arranged
from bispectral_ot.datasets.image_file import Look
from bispectral_ot.datasets.image_files import ImageFiles
from bispectral_ot.datasets.keys import list_arrays, without_single_channel
from bispectral_ot.datasets.listing import Listing, Stack
from bispectral_ot.datasets.reading import library, reading
from bispectral_ot.errors import DatasetError
from bispectral_ot.memory import check_fits


def list_zarr(path: Path, split: str, keys: Sequence[str]) -> Listing:
    """An array, a group with ``images`` and ``labels`` or with the arrays that ``keys`` name, or OME-Zarr."""
    zarr = library("zarr", extra="zarr", what=path)
    with reading(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about files that are no part of the store
        node = zarr.open(str(path.absolute()), mode="r")  # workers have other current folders
        if not hasattr(node, "members") and not hasattr(node, "arrays"):  # a store that is one array
            return list_arrays(str(path), path.stem, {"images": node}, (), split)
        attributes = _ome_attributes(node)
        if not keys and "plate" in attributes:
            return _list_plate(node, path, attributes["plate"])
        if not keys and "multiscales" in attributes:
            rows = _full_resolution(node, path)
            return Listing(Stack(rows, str(path)), path.name.removesuffix(".zarr").removesuffix(".ome"))
        return list_arrays(str(path), path.stem, dict(_arrays(node)), keys, split)


def _arrays(group: Any, prefix: str = "", depth: int = 0) -> list[tuple[str, Any]]:
    found = [(prefix + name, array) for name, array in group.arrays()]
    if depth < 4:
        for name, child in group.groups():
            found += _arrays(child, f"{prefix}{name}/", depth + 1)
    return found


def _ome_attributes(group: Any) -> dict[str, Any]:
    """Of version 0.5, which has a place of its own for them, or of earlier ones."""
    attributes = dict(group.attrs)
    inner = attributes.get("ome")
    return inner if isinstance(inner, dict) else attributes


def _full_resolution(group: Any, path: Path) -> NDArray[Any]:
    """Images (n, height, width[, channels]) of a group with multiscales."""
    scales = _ome_attributes(group)["multiscales"][0]
    array = group[scales["datasets"][0]["path"]]
    named = scales.get("axes") or list("tczyx")[-array.ndim :]  # before version 0.3 all five, unnamed
    axes = "".join(axis["name"][:1] if isinstance(axis, dict) else str(axis)[:1] for axis in named)
    arrange = arranged(axes, tuple(array.shape), str(path))
    check_fits(math.prod(array.shape) * array.dtype.itemsize, str(path), "save a part of it")
    images: NDArray[Any] = without_single_channel(arrange(np.asarray(array[...])))
    return images


def _list_plate(group: Any, path: Path, plate: dict[str, Any]) -> Listing:
    """Every field of every well is an image, which is called by its path, as in ``A/1/0``."""
    names = []
    for well in plate["wells"]:
        fields = _ome_attributes(group[well["path"]])["well"]["images"]
        names += [f"{well['path']}/{field['path']}" for field in fields]

    def decode(name: str, what: str) -> tuple[NDArray[Any], bool]:
        with reading(what):
            images = _full_resolution(group[name], path)
            if len(images) != 1:
                raise DatasetError(f"{what} has {len(images)} planes; name one field: {path / name}.")
            return images[0], False

    def look(name: str, what: str) -> Look:
        return Look.at(decode(name, what)[0])

    content = ImageFiles(names, names, str(path), look, decode)
    return Listing(content, path.name.removesuffix(".zarr").removesuffix(".ome"), files=tuple(names))
