"""Image files moved into their poses: names, folders, depth and metadata stay."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from bispectral_ot.datasets.resize import as_type
from bispectral_ot.engines import Threads, row_blocks
from bispectral_ot.engines.engine import Block
from bispectral_ot.errors import DatasetError, DataWarning, InputError
from bispectral_ot.files import whole_file
from bispectral_ot.poses.estimate import Poses
from bispectral_ot.poses.upright import turn_image
from bispectral_ot.progress import Progress, silent

UPRIGHT, UNSURE = "upright", "unsure"
FILLS = ("background", "transparent")
# Formats that can hold transparency.
_WITH_ALPHA = (".png", ".tif", ".tiff")
# What of a file's metadata is written again.
_KEPT = ("icc_profile", "exif", "dpi", "compression")


def upright_files(
    poses: Poses,
    folder: str | Path,
    files: Sequence[str],
    out: str | Path,
    *,
    fill: str | float = "background",
    expand: bool = False,
    guess: bool = False,
    progress: Progress = silent,
) -> dict[str, int]:
    """Write each file of ``folder``, moved into its pose, to ``out/upright``; to ``out/unsure`` without a sure pose.

    The originals are read at full resolution and depth and resampled once (bicubic). Files that are not sure are
    copied as they are. Returns how many went to each folder.

    Parameters
    ----------
    poses
        Of the files, in their order.
    folder, files
        Where they are, and their names relative to it, which they keep.
    out
        Folder to write to.
    fill
        What corners get: ``"background"`` (the median of each image's border), ``"transparent"``, or a grey value.
    expand
        Enlarge the canvas so that nothing is cut off.
    guess
        Move those whose pose is ambiguous, too.
    """
    if poses.rotations is not None:
        raise InputError("rotations in space do not apply to image files; use poses.rotations on your own data.")
    if len(files) != len(poses):
        raise InputError(f"there are {len(files)} files but {len(poses)} poses; give one file for each source.")
    check_fill(fill, files)
    sure = poses.found & (guess | ~poses.ambiguous)
    none = np.zeros(len(files))
    rows = [
        np.array(files, dtype=object),
        sure,
        none if poses.angles is None else poses.angles,
        none.astype(np.bool_) if poses.mirrored is None else poses.mirrored,
        np.zeros((len(files), 2)) if poses.shifts is None else poses.shifts,
    ]
    blocks = row_blocks(len(files), block_rows=4)
    moved = Threads().map(
        _write_block,
        blocks,
        rows=rows,
        shared=[poses, Path(folder), Path(out), fill, expand],
        stage="upright",
        progress=progress,
    )
    reduced = sum(moved)
    if reduced:
        warnings.warn(
            f"{reduced} colour images have 16 bits a channel, of which Pillow reads 8; the upright ones have 8.",
            DataWarning,
            stacklevel=2,
        )
    return {UPRIGHT: int(sure.sum()), UNSURE: int((~sure).sum())}


def check_fill(fill: str | float, files: Sequence[str]) -> None:
    """Raise an :class:`InputError` for what is no fill, or for transparency in files that cannot hold it."""
    if isinstance(fill, str) and fill not in FILLS:
        raise InputError(f"fill must be {' or '.join(FILLS)}, or a grey value, got {fill!r}.")
    if fill == "transparent":
        opaque = [file for file in files if Path(file).suffix.lower() not in _WITH_ALPHA]
        if opaque:
            raise InputError(
                f"{opaque[0]} cannot hold transparency ({len(opaque)} of {len(files)} files); fill with background, or "
                "save the images as PNG first."
            )


def _write_block(
    _block: Block,
    files: NDArray[np.object_],
    sure: NDArray[np.bool_],
    angles: NDArray[np.float64],
    mirrored: NDArray[np.bool_],
    shifts: NDArray[np.float64],
    poses: Poses,
    folder: Path,
    out: Path,
    fill: str | float,
    expand: bool,
) -> int:
    """Write some files, and return how many lose depth."""
    reduced = 0
    for file, is_sure, angle, mirror, move in zip(files, sure, angles, mirrored, shifts, strict=True):
        target = out / (UPRIGHT if is_sure else UNSURE) / file
        with whole_file(target) as partial:
            if not is_sure:
                shutil.copyfile(folder / file, partial)
                continue
            reduced += _move_file(folder / file, partial, angle, mirror, move, poses, fill, expand)
    return reduced


def _move_file(
    source: Path,
    target: Path,
    angle: float,
    mirrored: bool,
    move: NDArray[np.float64],
    poses: Poses,
    fill: str | float,
    expand: bool,
) -> bool:
    """Move one file; whether it loses depth."""
    try:
        with Image.open(source) as opened:
            deep = opened.mode in ("RGB", "RGBA") and "16" in str(opened.tile and opened.tile[0][3])
            kind, info = opened.format, {name: opened.info[name] for name in _KEPT if opened.info.get(name)}
            image = ImageOps.exif_transpose(opened)
            if "exif" in info:
                info["exif"] = image.getexif().tobytes()  # without the orientation, which the pixels have now
            pixels, has_alpha = _pixels(image, transparent=fill == "transparent")
    except OSError as error:
        raise DatasetError(
            f"cannot read the image {source} ({error}); it was there when the sets were matched."
        ) from None
    if poses.shifts is not None:
        from scipy.ndimage import shift

        steps = (*(move * poses.scale_of(pixels.shape)), *[0.0] * (pixels.ndim - 2))
        moved = as_type(shift(pixels.astype(np.float32), steps, mode="grid-wrap"), pixels.dtype)
    else:
        moved = _turn(pixels, angle, mirrored, has_alpha, fill, expand)
    quality = {"quality": 95, "subsampling": 0} if kind == "JPEG" else {}
    if image.mode == "CMYK":  # which four channels would not tell
        written = Image.frombytes("CMYK", moved.shape[1::-1], moved.tobytes())
    else:
        written = Image.fromarray(moved)
    written.save(target, format=kind, **info, **quality)
    return deep


def _pixels(image: Image.Image, *, transparent: bool) -> tuple[NDArray[Any], bool]:
    """Pixels as they are stored, and whether the last channel is opacity."""
    mode = image.mode
    if mode == "1":
        image = image.convert("L")
    elif mode in ("P", "PA", "La", "RGBa", "YCbCr", "HSV", "LAB") or "transparency" in image.info:
        grey = mode in ("L", "La", "1")
        image = image.convert(("LA" if grey else "RGBA") if image.has_transparency_data else "RGB")
    if transparent and image.mode in ("L", "RGB"):
        image = image.convert("LA" if image.mode == "L" else "RGBA")
    has_alpha = image.mode in ("LA", "RGBA")
    if transparent and not has_alpha:
        raise InputError(f"images of the kind {image.mode} (16 bits, say) cannot be transparent; fill with background.")
    return np.asarray(image), has_alpha


def _turn(
    pixels: NDArray[Any], angle: float, mirrored: bool, has_alpha: bool, fill: str | float, expand: bool
) -> NDArray[Any]:
    level = None if isinstance(fill, str) else float(fill)
    if not has_alpha:
        return turn_image(pixels, angle, mirrored=mirrored, fill=level, expand=expand)
    # colours count by their opacity, or hidden ones would shine through
    opacity = pixels[..., -1:].astype(np.float32) / 255
    weighted = np.concatenate([pixels[..., :-1] * opacity, 255 * opacity], axis=-1)
    outside = 0.0 if fill == "transparent" else None
    if level is not None:
        outside = np.append(np.full(pixels.shape[2] - 1, level), 255.0)  # type: ignore[assignment]
    turned = turn_image(weighted, angle, mirrored=mirrored, fill=outside, expand=expand)
    alpha = np.clip(turned[..., -1:], 0, 255)
    colours = turned[..., :-1] * 255 / np.maximum(alpha, 0.5)
    return as_type(np.concatenate([colours, alpha], axis=-1), np.dtype(np.uint8))
