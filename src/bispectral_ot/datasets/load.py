"""Loading of datasets: from a name, a folder, a file, an array or an object of another library."""

import logging
import os
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bispectral_ot import runtime
from bispectral_ot.checks import Split, advise, check_choice, check_integer, parse_size, user_path
from bispectral_ot.datasets.clouds import check_clouds, check_rows, sample_surface
from bispectral_ot.datasets.dataset import ArrayKind, Dataset, Kind, check_flat, is_chunked
from bispectral_ot.datasets.formats import array_files, encoded, stacks
from bispectral_ot.datasets.frames import Canvas, FrameChoice, Labels, Placement
from bispectral_ot.datasets.image_file import SUFFIXES
from bispectral_ot.datasets.io_errors import library, reading
from bispectral_ot.datasets.named_sets import NAMED, read_named
from bispectral_ot.datasets.sources import SPLIT_WORDS, FileSource, LazyDataset, Positions
from bispectral_ot.datasets.warp import Size, are_grey, as_planes
from bispectral_ot.errors import DatasetError, DataWarning, InputError, warn
from bispectral_ot.memory import check_fits
from bispectral_ot.runtime import Progress
from bispectral_ot.sampling import evenly_spaced, random_rows

SHAPE_SUFFIXES = (".obj", ".off", ".ply", ".stl", ".xyz")
_UNREAD = (".gif", ".webp", ".heic", ".avif", ".jp2", ".jfif", ".pgm", ".ppm", ".dcm", ".glb", ".gltf", ".pcd")
LARGEST_SIDE = 128  # of images if no size is given: larger ones are slower and match no better

# Readers of files by their ending; libraries that only one of them needs are imported when a file is read.
_READERS: dict[str, Callable[[Path, str, Sequence[str]], LazyDataset]] = {
    ".npz": array_files.scan_npz,
    ".npy": array_files.scan_npy,
    **dict.fromkeys((".h5", ".hdf5"), array_files.scan_hdf5),
    ".zarr": array_files.scan_zarr,
    ".parquet": encoded.scan_parquet,
    **dict.fromkeys((".mrcs", ".mrc"), stacks.scan_mrc),
    ".star": stacks.scan_star,
    **dict.fromkeys((".fits", ".fit", ".fts"), stacks.scan_fits),
    **dict.fromkeys((".tif", ".tiff"), stacks.scan_tiff),
    **dict.fromkeys((".csv", ".tsv"), encoded.scan_csv),
}
_WITH_SPLITS = (".npz", ".h5", ".hdf5", ".zarr", ".csv", ".tsv")


def load(
    name_or_path: "str | os.PathLike[str] | ArrayLike | Dataset",
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
        Name of a set (:func:`available`; downloaded once, to the user's cache or ``$BISPECTRAL_OT_CACHE``); folder of
        images or 3-D shapes, with one sub-folder per class or without labels; file (docs/files.md), whose arrays or
        columns may be named as ``file.h5::IMAGES::LABELS``; array (n, height, width[, channels]) of any library,
        :class:`Dataset`, data frame with a column of paths, dataset of torch or torchvision.
    split : ``"train"``, ``"val"`` or ``"test"``, if the source has several.
    root
        Folder with the IDX files of the official sets, which are then not downloaded; default: ``$BISPECTRAL_OT_DATA``.
    resize
        Size that images are scaled to fit into, on their own background: one side, (height, width) or ``"32x48"``. By
        default images in files are reduced to at most 128 pixels, and those of different sizes become squares.
    grey : Whether RGB (or RGBA) images are converted to their luminance.
    frame
        Placement of images on their canvas: ``"canvas"``, ``"picture"``, ``"content"``, ``"common"``, or ``"auto"``,
        which leaves out margins that an editor filled; docs/frames.md.
    kind : Kind of the arrays, see :class:`Dataset`; by default clouds for files of shapes, else images.
    limit, seed : Maximum number of images, drawn at random; seed for them and for the points of meshes.
    n_points : Number of points drawn from each mesh; maximum number of points of a cloud in a file.
    progress : Called as ``progress(stage, done, total)``.

    Examples
    --------
    >>> load("digits")
    Dataset('digits': 1,797 images of 8x8 uint8, 10 classes)
    """
    with runtime.running(progress=progress):
        size = None if resize is None else parse_size(resize)
        lazy = list_set(name_or_path, split=split, root=root, n_points=n_points, seed=seed).of_kind(kind)
        if grey or size is not None:
            check_flat(lazy, "resize and grey")
        kept = None if limit is None else drawn(np.arange(len(lazy)), limit, seed=seed)
        return read_together([lazy], [kept], size=size, grey=grey, frames=FrameChoice(frame))[0]


def drawn(positions: Positions, limit: int, *, seed: int, stream: int = 0) -> Positions:
    """At most ``limit`` of the positions at random, in increasing order; another ``stream`` draws others."""
    check_integer("limit", limit, minimum=1)
    return positions[random_rows(len(positions), limit, seed=[check_integer("seed", seed, minimum=0), stream])]


def array_kind(symmetry: Any, features: Any) -> ArrayKind | None:
    """Kind of arrays in files for this symmetry and these features; None for images."""
    if symmetry == "so3" or features == "sphere-bispectrum":
        return "sphere"
    is_shape = "so3-shapes" in (symmetry, getattr(features, "symmetry", None)) or features == "shell-bispectrum"
    return "shapes" if is_shape else None


def as_datasets(
    sets: Sequence[Any], names: Sequence[str], *, kind: ArrayKind | None = None, frames: FrameChoice | None = None
) -> list[Dataset]:
    """Datasets unchanged, arrays as datasets with these names; names and paths are loaded, all at one size."""
    paths = {os.fspath(data) for data in sets if isinstance(data, (str, os.PathLike))}
    known = {path: list_set(path) for path in sorted(paths)}
    found = [
        known[os.fspath(data)] if isinstance(data, (str, os.PathLike)) else encoded.scan_object(data, name)
        for data, name in zip(sets, names, strict=True)
    ]
    found = [lazy.of_kind(kind) if lazy.dataset is None or kind == "shapes" else lazy for lazy in found]
    if frames is None or not frames.looks_at(found):
        in_memory = [lazy.dataset for lazy in found if lazy.dataset is not None]
        return _in_grey_if_all_are(in_memory) if len(in_memory) == len(sets) else read_together(found)
    return read_together(found, frames=frames)


def list_set(
    source: Any, split: str = "train", root: str | os.PathLike[str] | None = None, n_points: int = 4096, seed: int = 0
) -> LazyDataset:
    """Lazy dataset: labels and files are known, but no images in files are read yet; see :func:`load`."""
    check_choice("split", split, get_args(Split))
    check_integer("n_points", n_points, minimum=2)
    check_integer("seed", seed, minimum=0)
    if not isinstance(source, (str, os.PathLike)):
        _check_split(split, "an array or Dataset")
        return encoded.scan_object(source, "array")
    if (name := os.fspath(source)) in NAMED:
        return LazyDataset.of(read_named(name, split, root))
    path, keys = user_path(name), []
    if "::" in name and not path.exists():  # arrays in a file, unless there is a file of this very name
        name, *keys = name.split("::")
        path = user_path(name)
    try:
        if path.is_dir() and path.suffix.lower() != ".zarr":
            return _scan_folder(path, keys, split, n_points, seed)
        return _scan_file(path, keys, split)
    except OSError as error:
        raise DatasetError(f"cannot read {error.filename or path}: {error.strerror or error}.") from None


def _scan_folder(path: Path, keys: list[str], split: str, n_points: int, seed: int) -> LazyDataset:
    if keys:
        raise InputError(f"{path} is a folder, which has no arrays to name; leave ::{'::'.join(keys)} out.")
    idx = sorted(each for each in path.iterdir() if array_files.is_idx_name(each.name) and each.is_file())
    if idx:
        found = [p for p in idx if "images" in p.name and any(mark in p.name for mark in SPLIT_WORDS[split])]
        stems = {each.name.removesuffix(".gz") for each in found}
        if len(stems) != 1:
            count = f"{len(stems) or 'no'} IDX files with images of the {split} split"
            among = ", ".join(each.name for each in idx[:6])
            raise DatasetError(f"{path} has {count} among {among}; name the file itself.")
        return _scan_file(found[0], [], "train")
    parts = sorted(each for each in path.iterdir() if each.suffix.lower() == ".parquet" and each.is_file())
    if any(each.name.startswith(tuple(SPLIT_WORDS)) for each in parts):  # train-00000-of-00002.parquet
        parts = [each for each in parts if each.name.startswith(split)]
    elif split != "train":
        parts = []
    folders = _sub_folders(path)
    splits = {name: sub for sub in folders for name, words in SPLIT_WORDS.items() if sub.name.lower() in words}
    if splits and len(splits) == len(folders):  # there are no others
        if split not in splits:
            raise InputError(f"{path} has no {split} split; its splits are {', '.join(splits)}.")
        path = splits[split]
    elif parts:
        if not _has_files(path, SUFFIXES):
            with reading(path):
                return encoded.scan_parquet(path, split, (), parts=parts)
        warn(f"{path} has images and Parquet files; the images are read. Name {parts[0]} to read that.")
    else:
        _check_split(split, path)
    return _scan_shapes(path, n_points=n_points, seed=seed) if _has_files(path, SHAPE_SUFFIXES) else _scan_tree(path)


def _scan_file(path: Path, keys: Sequence[str], split: str) -> LazyDataset:
    """Set in a file; ``keys`` name its arrays or columns."""
    suffix = path.suffix.lower()
    if not path.exists() and (suffix or len(path.parts) > 1):
        raise DatasetError(f"there is no file or folder {path}; check the path.")
    if not path.exists():
        raise DatasetError(f"{str(path)!r} is neither a known dataset nor a file or folder here; {advise(path, NAMED)}")
    if not path.is_file() and suffix != ".zarr":  # which is a folder
        raise DatasetError(f"{path} is neither a file nor a folder; save the data to a file first.")
    reader = array_files.scan_idx if array_files.is_idx_name(path.name) else _READERS.get(suffix)
    if reader is None:
        if suffix in SUFFIXES + SHAPE_SUFFIXES:
            raise DatasetError(f"{path} is a single image or shape; give its folder (in Python, also [path]).")
        known = f"a folder of images ({', '.join(SUFFIXES)}) or of shapes, or a file: IDX, {', '.join(_READERS)}"
        raise DatasetError(f"{path} is of an unknown kind; expected {known}.")
    if suffix not in _WITH_SPLITS:
        _check_split(split, path)
    if keys and suffix not in (*_WITH_SPLITS, ".parquet", ".fits", ".fit", ".fts"):
        raise InputError(f"{path} has no arrays or columns to name, so leave ::{'::'.join(keys)} out.")
    with reading(path):
        return reader(path, split, keys)


def _check_split(split: str, what: object) -> None:
    if split != "train":
        raise InputError(f"{what} has no {split} split; leave the split out to have all of it.")


def _scan_tree(folder: Path, suffixes: tuple[str, ...] = SUFFIXES, noun: str = "images") -> LazyDataset:
    """All files of ``folder``: ``<class>/<file>`` with labels, or ``<file>`` without."""
    flat = _files_in(folder, suffixes)
    by_class = {sub: _files_in(sub, suffixes) for sub in _sub_folders(folder)}
    filled = {sub: files for sub, files in by_class.items() if files}
    if flat and filled:
        found = f"{len(flat)} {noun} next to {len(filled)} sub-folders with {noun}"
        raise DatasetError(f"{folder} has {found}; put all into sub-folders.")
    if not flat and not filled:
        deeper = next((sub for sub in by_class if any(path.is_dir() for path in sub.iterdir())), None)
        advice = f" Name the folder that holds the classes: {deeper} ?" if deeper else ""
        raise DatasetError(f"{folder} has no {noun} ({', '.join(suffixes)}), directly or one folder down.{advice}")
    others = tuple({*_UNREAD, *SUFFIXES, *SHAPE_SUFFIXES}.difference(suffixes))
    left_out = [sub for sub, files in by_class.items() if filled and not files]
    left_out += [path for place in (folder, *by_class) for path in _files_in(place, others)]
    left_out += [deep for sub in by_class for deep in _sub_folders(sub) if _files_in(deep, suffixes)]
    if left_out:
        some = ", ".join(str(path.relative_to(folder)) for path in left_out[:5]) + ", ..." * (len(left_out) > 5)
        where = f"{noun} ({', '.join(suffixes)}) are read from {folder} or from its sub-folders"
        warn(f"{where}, but not deeper; left out: {some}")
    paths = flat or [path for files in filled.values() for path in files]
    labels = [index for index, files in enumerate(filled.values()) for _ in files] if filled else None
    names = tuple(_as_text(path.relative_to(folder).as_posix()) for path in paths)
    source = FileSource(paths, names, str(folder))
    classes = tuple(_as_text(sub.name) for sub in filled)
    return LazyDataset(source, _as_text(folder.resolve().name), labels, classes, names)


def _has_files(folder: Path, suffixes: tuple[str, ...]) -> bool:
    """Whether there are such files in the folder or one folder down."""
    return any(_files_in(place, suffixes) for place in (folder, *_sub_folders(folder)))


def _sub_folders(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        return sorted(folder / each.name for each in entries if each.is_dir() and not each.name.startswith("."))


def _files_in(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    with os.scandir(folder) as entries:
        names = [each.name for each in entries if each.name.lower().endswith(suffixes) and each.is_file()]
    return sorted(folder / name for name in names if not name.startswith("."))


def _as_text(name: str) -> str:
    """Name read as UTF-8 in any locale, with accented letters in one normal form."""
    return unicodedata.normalize("NFC", os.fsencode(name).decode("utf-8", "surrogateescape"))


def _scan_shapes(folder: Path, *, n_points: int, seed: int) -> LazyDataset:
    """All shapes of ``folder``: ``<class>/<shape>`` with labels, or ``<shape>`` without."""
    lazy = _scan_tree(folder, SHAPE_SUFFIXES, noun="shapes")
    if any(not name.lower().endswith(".xyz") for name in lazy.files):
        library("trimesh", extra="meshes", what=folder)
    return replace(lazy, source=ShapeSource(lazy.source, n_points, seed), kind="clouds")


@dataclass(frozen=True)
class ShapeSource:
    """Files that become one cloud of points each."""

    files: FileSource
    n_points: int
    seed: int

    def __len__(self) -> int:
        return len(self.files)

    def read(self, positions: Positions, canvas: Canvas) -> NDArray[np.float32]:
        """One array, in which unused rows are NaN."""
        what = f"{self.files.place} with {len(positions):,} shapes"
        check_fits(24 * self.n_points * len(positions), what, "draw fewer points, n_points=...")
        return check_clouds(self.files.map(self._read, positions, "read"))

    def _read(self, i: int) -> NDArray[np.float32]:
        """Points (n, 3) of a shape: ``n_points`` drawn from the faces of a mesh, or at most as many of a cloud."""
        path: Path = self.files.items[i]
        # a stream for each file: its points depend neither on threads nor on which other files are read
        suffix, rng = path.suffix.lower(), np.random.default_rng([self.seed, i])
        try:
            if suffix == ".xyz":  # further columns are normals or colours
                lines = path.read_text(errors="replace").split("\n")
                if not any(line.strip() for line in lines):  # NumPy would warn only
                    raise InputError("it is empty")
                points = np.loadtxt(lines, usecols=(0, 1, 2), ndmin=2)
            else:
                import trimesh

                logging.getLogger("trimesh").setLevel(logging.ERROR)  # textures that are missing do not matter
                options: Any = {"skip_materials": True} if suffix == ".obj" else {}
                shape: Any = trimesh.load(path, process=False, **options)
                shape = shape.to_geometry() if isinstance(shape, trimesh.Scene) else shape  # all parts in one mesh
                points = np.asarray(shape.vertices)
                if len(getattr(shape, "faces", ())):
                    points = sample_surface(points, np.asarray(shape.faces), self.n_points, rng=rng)
                elif suffix != ".ply":  # without faces it is a cloud, not a damaged mesh
                    raise InputError("it has no faces (points without faces are read from .ply and .xyz files)")
            if len(points) > self.n_points:
                points = points[np.sort(rng.choice(len(points), self.n_points, replace=False))]
            if len(points) == 1:
                raise InputError("it has only 1 point")
            return check_rows(points, "content", "points", columns=3)
        except MemoryError:
            raise
        except Exception as error:  # readers raise any kind of error on a damaged file
            said = str(error).rstrip(".") or type(error).__name__
            raise DatasetError(f"cannot read the shape {path}: {said}; repair or remove it.") from None


def read_together(
    sets: Sequence[LazyDataset],
    positions: Sequence[Positions | None] | None = None,
    *,
    size: Size | None = None,
    grey: bool = False,
    frames: FrameChoice | None = None,
) -> list[Dataset]:
    """Images at ``positions`` of each set (all by default), at one size; a set that occurs twice is read once."""
    asked = positions or [None] * len(sets)
    rows = [np.arange(len(lazy)) if kept is None else kept for lazy, kept in zip(sets, asked, strict=True)]
    placements: list[Placement | None] = [None] * len(sets)
    if frames is not None and frames.looks_at(sets):
        count = min(max(96, 4 * max(len(lazy.classes) for lazy in sets)), 384)  # enough of each class
        both = zip(sets, rows, strict=True)
        samples, labels = zip(*(sampled(lazy, kept, grey, count) for lazy, kept in both), strict=True)
        if any(sample[0].ndim == 2 for sample in samples) and all(map(are_grey, samples)):
            samples = tuple([as_planes(image[None])[0, ..., 0] for image in sample] for sample in samples)
        chosen = frames(samples, [lazy.name for lazy in sets], labels[-1])
        placements = [None if placement == Placement() else placement for placement in chosen]
    wanted: dict[LazyDataset, Positions] = {}
    for lazy, kept in zip(sets, rows, strict=True):
        wanted[lazy] = np.union1d(wanted[lazy], kept) if lazy in wanted else kept
    size = common_size(wanted, size)
    read: dict[tuple[LazyDataset, Canvas], Dataset] = {}
    datasets = []
    for lazy, kept, placement in zip(sets, rows, placements, strict=True):
        canvas = Canvas(size, grey, placement)
        if (lazy, canvas) not in read:
            read[lazy, canvas] = lazy.read(wanted[lazy], canvas)
        whole = read[lazy, canvas]
        datasets.append(whole if len(kept) == len(whole) else whole.select(np.searchsorted(wanted[lazy], kept)))
    return _in_grey_if_all_are(datasets)


def _in_grey_if_all_are(datasets: list[Dataset]) -> list[Dataset]:
    """Datasets without the axis of channels if some have none and the channels of all others are equal."""
    images = [dataset.images for dataset in datasets if dataset.kind == "images" and not is_chunked(dataset.images)]
    if len({each.ndim for each in images}) < 2 or len(images) < len(datasets) or not all(map(are_grey, images)):
        return datasets
    return [replace(each, images=np.ascontiguousarray(as_planes(each.images)[..., 0])) for each in datasets]


def sampled(lazy: LazyDataset, kept: Positions, grey: bool, count: int) -> tuple[list[NDArray[Any]], Labels]:
    """Some images of a set (fewer if they are large) and their labels, for the choice of a frame."""
    large = any(max(size) > 1024 for size in lazy.sizes(kept[:1]))
    some = kept[evenly_spaced(len(kept), 32 if large else count)]
    with warnings.catch_warnings(action="ignore", category=DataWarning):  # reading all of them will warn
        images = [lazy.source.read(some[i : i + 1], Canvas(None, grey))[0] for i in range(len(some))]
    if len({image.ndim for image in images}) > 1:  # some are grey, some in colour
        images = [image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2) for image in images]
    return images, None if lazy.labels is None else np.asarray(lazy.labels)[some]


def common_size(wanted: dict[LazyDataset, Positions], size: Size | None = None) -> Size | None:
    """Given size, or else a common size of the sets; None if they have it already, or have no size."""
    if size is not None:
        return size
    sizes = {lazy: each for lazy, kept in wanted.items() if (each := set(lazy.sizes(kept)))}
    distinct = set().union(*sizes.values())
    if not distinct:
        return None
    large = max(distinct, key=max)
    is_small = max(large) <= LARGEST_SIDE or min(large) < 4  # the latter are signals or point clouds
    if len(distinct) == 1 and (is_small or all(lazy.dataset is not None for lazy in sizes)):
        return None
    ranges = []
    for lazy, each in sizes.items():
        extremes = sorted(each, key=lambda pair: (pair[0] * pair[1], pair))[:: max(1, len(each) - 1)]
        ranges.append(f"{lazy.name} {' to '.join(f'{height} x {width}' for height, width in extremes)}")
    listed = ", ".join(ranges)
    if len(distinct) == 1:
        scale = max(large) / LARGEST_SIDE
        size = max(1, round(large[0] / scale)), max(1, round(large[1] / scale))
        said = f"images ({listed}) are reduced to {size[0]} x {size[1]}"
    else:
        side = min(LARGEST_SIDE, *(max(map(max, each)) for each in sizes.values()))
        size = side, side
        said = f"images have different sizes ({listed}) and are compared at {side} x {side}, with padded backgrounds"
    warn(f"{said}; choose another size with resize=... (--resize).")
    return size
