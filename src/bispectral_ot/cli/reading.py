"""Datasets as the command line names them, read and prepared."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.options import FeatureOptions, ImageOptions, PairOptions, ReadOptions

if TYPE_CHECKING:
    from bispectral_ot.datasets import Dataset
    from bispectral_ot.datasets.sources import LazyDataset, Positions

SET_HELP = (
    "A name from `datasets list`, a folder of images or of 3-D shapes, or a file: arrays (.npz, .npy, IDX, HDF5, "
    "Zarr), a .csv of paths and labels, and others (docs/files.md)"
)
# Features and symmetries of signals on the sphere and of 3-D shapes.
_SPHERE, _SHAPES = ("so3", "sphere-bispectrum"), ("so3-shapes", "shell-bispectrum")


def check_features(options: FeatureOptions, reading: ImageOptions, *, poses: bool = False) -> None:
    """Raise an :class:`InputError` where features, symmetry and metric, or what is done to images, do not fit."""
    from bispectral_ot.features import choose_features

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # shown when the work is done
        features = getattr(options, "extractor", options.features)
        choice = choose_features(features, symmetry=options.symmetry, metric=options.metric)
    if poses and choice.symmetry in (None, "none"):
        raise InputError(
            f"the features {choice.name} are not rotation invariant, so poses are undefined; leave --poses out, or use "
            "--symmetry rotation."
        )
    if {options.symmetry, options.features} & {*_SPHERE, *_SHAPES}:
        for name in ("rotate_source", "center", "resize", "grey"):
            if getattr(reading, name, False):
                raise InputError(
                    f"--{name.replace('_', '-')} is for flat images, not for spheres or 3-D shapes; leave it out."
                )


def is_sphere(options: FeatureOptions) -> bool:
    """Whether images are signals on the sphere, latitude by longitude."""
    return bool({options.symmetry, options.features} & set(_SPHERE))


def list_pair(
    source: str, target: str, reading: PairOptions, *, sphere: bool
) -> tuple[list[LazyDataset], list[Positions]]:
    """Contents of both sets, and the positions of the images that are matched."""
    import numpy as np

    from bispectral_ot.datasets.load import drawn, list_set
    from bispectral_ot.datasets.transforms import half_positions

    words = (source, reading.source_split), (target, reading.target_split)
    if reading.split_halves and words[0] != words[1]:
        raise InputError(
            "--split-halves is for one set on both sides; give the same SOURCE and TARGET, or leave it out."
        )
    kind = "sphere" if sphere else None
    known = {
        word: list_set(word[0], split=word[1], root=reading.root, kind=kind, seed=reading.seed)  # type: ignore[arg-type]
        for word in dict.fromkeys(words)
    }
    listings = [known[word] for word in words]
    if reading.split_halves:
        positions = [np.sort(half) for half in half_positions(listings[0], seed=reading.seed)]
    else:
        positions = [np.arange(len(listing)) for listing in listings]
    if reading.limit is not None:
        # a stream for each side, so that a set and itself do not give the same images
        positions = [drawn(each, reading.limit, seed=reading.seed, stream=side) for side, each in enumerate(positions)]
    _check_flat(listings, reading)
    return listings, positions


def read_pair(
    listings: Sequence[LazyDataset],
    positions: Sequence[Positions],
    reading: PairOptions,
    options: FeatureOptions,
    *,
    lazy: bool = False,
) -> tuple[Dataset, Dataset, dict[str, Any]]:
    """Both sets at one size and in their frames, rotated and centred, and the evidence for the frames.

    ``lazy`` leaves images in their files, for workers to read.
    """
    from bispectral_ot.datasets import center, rotate_randomly
    from bispectral_ot.datasets.common_size import read_together
    from bispectral_ot.datasets.transforms import warn_of_shared
    from bispectral_ot.features import choose_features
    from bispectral_ot.features.frame_choice import JudgedFrames

    named = {name: getattr(options, name) for name in ("symmetry", "metric", "intensity")}
    frames = JudgedFrames(reading.frame, partial(choose_features, options.features, **named))
    source, target = read_together(listings, positions, size=reading.size, grey=reading.grey, stay=lazy, frames=frames)
    if reading.rotate_source:
        warn_of_shared(source, target)  # after the rotation they are not found
        source = rotate_randomly(source, seed=reading.seed)
    if reading.center:
        source, target = center(source), center(target)
    return source, target, frames.settings


def read_sets(words: Sequence[str], reading: ReadOptions, *, sphere: bool) -> dict[str, Dataset]:
    """Sets by their names; ``NAME=PATH`` names a set."""
    import numpy as np

    from bispectral_ot.datasets import center
    from bispectral_ot.datasets.common_size import read_together
    from bispectral_ot.datasets.frames import FrameChoice
    from bispectral_ot.datasets.load import drawn, list_set

    found: dict[str, LazyDataset] = {}
    known: dict[str, LazyDataset] = {}
    for word in words:
        title, given, path = word.partition("=")
        if not given or Path(word).exists():
            title, path = "", word
        if path not in known:
            kind = "sphere" if sphere else None
            known[path] = list_set(path, split=reading.split, root=reading.root, kind=kind, seed=reading.seed)  # type: ignore[arg-type]
        name = title or known[path].name
        if name in found:
            raise InputError(f"two sets are called {name!r}; name them, as in first={path}.")
        found[name] = known[path]
    listings = list(found.values())
    _check_flat(listings, reading)
    positions = [np.arange(len(listing)) for listing in listings]
    if reading.limit is not None:
        positions = [
            drawn(each, reading.limit, seed=reading.seed, stream=number) for number, each in enumerate(positions)
        ]
    frames = FrameChoice(reading.frame)
    datasets = read_together(listings, positions, size=reading.size, grey=reading.grey, frames=frames)
    return dict(zip(found, map(center, datasets) if reading.center else datasets, strict=True))


def _check_flat(listings: Sequence[LazyDataset], reading: ImageOptions) -> None:
    from bispectral_ot.datasets.dataset import check_flat

    asked = [name for name in ("resize", "grey", "center", "rotate_source") if getattr(reading, name, False)]
    for listing in listings if asked else ():
        check_flat(listing, f"--{asked[0].replace('_', '-')}")
