"""A folder of shapes in 3-D: one sub-folder per class, or flat and without labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.clouds import pack_clouds
from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.datasets.folder import as_text, has_files, list_files
from bispectral_ot.datasets.image_file import SUFFIXES
from bispectral_ot.datasets.shape_file import SHAPE_SUFFIXES, check_mesh_reader, read_shape
from bispectral_ot.engines import Block, Threads, row_blocks
from bispectral_ot.errors import DataWarning, warn
from bispectral_ot.memory import check_fits
from bispectral_ot.progress import Progress, silent


def has_shapes(folder: Path) -> bool:
    """Whether there are meshes or clouds in the folder or one folder down."""
    return has_files(folder, SHAPE_SUFFIXES)


def read_shape_folder(folder: Path, *, n_points: int, seed: int, progress: Progress = silent) -> Dataset:
    """Read all shapes of ``folder``: ``<class>/<shape>`` with labels, or ``<shape>`` without.

    Parameters
    ----------
    n_points
        Points drawn from each mesh, evenly by area; clouds with more points are thinned out to as many.
    seed
        Of these points.
    """
    classes, paths, labels = list_files(folder, SHAPE_SUFFIXES, "shapes")
    if has_files(folder, SUFFIXES):
        warn(f"{folder} has images and shapes in 3-D; the shapes are read, the images are not.", DataWarning)
    if any(path.suffix.lower() != ".xyz" for path in paths):
        check_mesh_reader()
    check_fits(24 * n_points * len(paths), f"{folder} with {len(paths):,} shapes", "draw fewer points, n_points=...")
    blocks = row_blocks(len(paths), block_rows=16)
    parts = Threads().map(
        _read_shapes, blocks, rows=(paths,), shared=(n_points, seed), stage=f"read {folder.name}", progress=progress
    )
    return Dataset(
        pack_clouds([cloud for part in parts for cloud in part]),
        np.array(labels) if classes else None,
        name=as_text(folder.resolve().name),
        classes=tuple(classes),
        files=tuple(as_text(path.relative_to(folder).as_posix()) for path in paths),
        kind="clouds",
    )


def _read_shapes(block: Block, paths: list[Path], n_points: int, seed: int) -> list[NDArray[np.float32]]:
    # a stream for each file: the points do not depend on how files are shared out to threads
    streams = (np.random.default_rng([seed, number]) for number in range(block.start, block.stop))
    return [read_shape(path, n_points=n_points, rng=rng) for path, rng in zip(paths, streams, strict=True)]
