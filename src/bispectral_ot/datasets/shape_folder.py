"""A folder of shapes in 3-D: one sub-folder per class, or flat and without labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.datasets.clouds import pack_clouds
from bispectral_ot.datasets.folder import as_text, has_files, list_files
from bispectral_ot.datasets.image_file import SUFFIXES, Look
from bispectral_ot.datasets.listing import Listing, Positions
from bispectral_ot.datasets.resize import Size
from bispectral_ot.datasets.shape_file import SHAPE_SUFFIXES, check_mesh_reader, read_shape
from bispectral_ot.engines import Block, Threads, row_blocks
from bispectral_ot.errors import DataWarning, warn
from bispectral_ot.memory import check_fits
from bispectral_ot.progress import Progress


def has_shapes(folder: Path) -> bool:
    """Whether there are meshes or clouds in the folder or one folder down."""
    return has_files(folder, SHAPE_SUFFIXES)


def list_shape_folder(folder: Path, *, n_points: int, seed: int) -> Listing:
    """List all shapes of ``folder``: ``<class>/<shape>`` with labels, or ``<shape>`` without.

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
    files = tuple(as_text(path.relative_to(folder).as_posix()) for path in paths)
    content = ShapeFiles(paths, folder, n_points, seed)
    name = as_text(folder.resolve().name)
    return Listing(content, name, labels if classes else None, tuple(classes), files, kind="clouds")


@dataclass(frozen=True)
class ShapeFiles:
    """Files that become one cloud of points each."""

    paths: list[Path]
    folder: Path
    n_points: int
    seed: int

    def __len__(self) -> int:
        return len(self.paths)

    def looks(self, positions: Positions, progress: Progress) -> list[Look]:
        """None: clouds have no size in pixels."""
        return []

    def read(self, positions: Positions, size: Size | None, grey: bool, progress: Progress) -> NDArray[np.float32]:
        """One array, in which unused rows are NaN."""
        what = f"{self.folder} with {len(positions):,} shapes"
        check_fits(24 * self.n_points * len(positions), what, "draw fewer points, n_points=...")
        blocks = row_blocks(len(positions), block_rows=16)
        stage = f"read {self.folder.name}"
        parts = Threads().map(self._read_block, blocks, rows=(positions,), stage=stage, progress=progress)
        return pack_clouds([cloud for part in parts for cloud in part])

    def _read_block(self, _block: Block, positions: Positions) -> list[NDArray[np.float32]]:
        # a stream for each file: its points depend neither on threads nor on which other files are read
        return [
            read_shape(self.paths[i], n_points=self.n_points, rng=np.random.default_rng([self.seed, int(i)]))
            for i in positions
        ]
