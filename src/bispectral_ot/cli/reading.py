"""Datasets as the command line names them, read and prepared."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.literals import Split
from bispectral_ot.options import FeatureOptions, ImageOptions, PairOptions, ReadOptions

if TYPE_CHECKING:
    from bispectral_ot.datasets import Dataset
    from bispectral_ot.datasets.sources import LazyDataset, Positions

    Listed = tuple[list[LazyDataset], list[Positions]]

SET_HELP = (
    "A name from `datasets list`, a folder of images or of 3-D shapes, or a file: arrays (.npz, .npy, IDX, HDF5, "
    "Zarr), a .csv of paths and labels, and others (docs/files.md)"
)
# Features and symmetries of signals on the sphere and of 3-D shapes.
_SPHERE, _SHAPES = {"so3", "sphere-bispectrum"}, {"so3-shapes", "shell-bispectrum"}
_FLAT_ONLY = ("rotate_source", "center", "resize", "grey")


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
    asked = [name for name in _FLAT_ONLY if getattr(reading, name, False)]
    if asked and {options.symmetry, options.features} & (_SPHERE | _SHAPES):
        name = asked[0].replace("_", "-")
        raise InputError(f"--{name} is for flat images, not for spheres or 3-D shapes; leave it out.")


def list_sets(words: Sequence[tuple[str, Split]], reading: ImageOptions, options: FeatureOptions) -> Listed:
    """Contents of sets, and the positions of the images that are used."""
    import numpy as np

    from bispectral_ot.datasets.dataset import check_flat
    from bispectral_ot.datasets.load import drawn, list_set
    from bispectral_ot.datasets.transforms import half_positions

    kind = "sphere" if {options.symmetry, options.features} & _SPHERE else None
    known = {
        word: list_set(word[0], split=word[1], root=reading.root, kind=kind, seed=reading.seed)  # type: ignore[arg-type]
        for word in dict.fromkeys(words)
    }
    listings = [known[word] for word in words]
    positions = [np.arange(len(listing)) for listing in listings]
    if getattr(reading, "split_halves", False):
        if words[0] != words[1]:
            raise InputError(
                "--split-halves is for one set on both sides; give the same SOURCE and TARGET, or leave it out."
            )
        positions = [np.sort(half) for half in half_positions(listings[0], seed=reading.seed)]
    if reading.limit is not None:
        # a stream for each set, so that a set and itself do not give the same images
        positions = [drawn(each, reading.limit, seed=reading.seed, stream=i) for i, each in enumerate(positions)]
    asked = [name for name in _FLAT_ONLY if getattr(reading, name, False)]
    for listing in listings if asked else ():
        check_flat(listing, f"--{asked[0].replace('_', '-')}")
    return listings, positions


def list_pair(source: str, target: str, reading: PairOptions, options: FeatureOptions) -> Listed:
    """Contents of source and target, and the positions of the images that are matched."""
    return list_sets([(source, reading.source_split), (target, reading.target_split)], reading, options)


def read_pair(
    listed: Listed, reading: PairOptions, options: FeatureOptions, *, lazy: bool = False
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
    source, target = read_together(*listed, size=reading.size, grey=reading.grey, stay=lazy, frames=frames)
    if reading.rotate_source:
        warn_of_shared(source, target)  # after the rotation they are not found
        source = rotate_randomly(source, seed=reading.seed)
    if reading.center:
        source, target = center(source), center(target)
    return source, target, frames.settings


def read_sets(words: Sequence[str], reading: ReadOptions, options: FeatureOptions) -> dict[str, Dataset]:
    """Sets by their names; ``NAME=PATH`` names a set."""
    from bispectral_ot.datasets import center
    from bispectral_ot.datasets.common_size import read_together
    from bispectral_ot.datasets.frames import FrameChoice

    parts = [("", "", word) if Path(word).exists() or "=" not in word else word.partition("=") for word in words]
    listed = list_sets([(path, reading.split) for _, _, path in parts], reading, options)
    names = [title or listing.name for (title, _, _), listing in zip(parts, listed[0], strict=True)]
    for (_, _, path), name in zip(parts, names, strict=True):
        if names.count(name) > 1:
            raise InputError(f"two sets are called {name!r}; name them, as in first={path}.")
    datasets = read_together(*listed, size=reading.size, grey=reading.grey, frames=FrameChoice(reading.frame))
    return dict(zip(names, map(center, datasets) if reading.center else datasets, strict=True))
