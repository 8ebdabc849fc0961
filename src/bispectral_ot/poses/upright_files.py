"""Image files moved into their poses: names, folders, depth and metadata stay."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from bispectral_ot.datasets.image_file import FORMATS, deep_colours, is_deep_colour
from bispectral_ot.datasets.io_errors import library
from bispectral_ot.datasets.resize import as_type
from bispectral_ot.engines import Threads, row_blocks
from bispectral_ot.engines.engine import Block
from bispectral_ot.errors import DatasetError, InputError
from bispectral_ot.files import whole_file
from bispectral_ot.poses.estimate import Poses
from bispectral_ot.poses.upright import shift_image, turn_image

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
    shared = [poses, Path(folder), Path(out), fill, expand]
    for _ in Threads().map(_write_block, blocks, rows=rows, shared=shared, stage="upright"):
        pass
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
) -> None:
    for file, is_sure, angle, mirror, shift in zip(files, sure, angles, mirrored, shifts, strict=True):
        target = out / (UPRIGHT if is_sure else UNSURE) / file
        with whole_file(target) as partial:
            if not is_sure:
                shutil.copyfile(folder / file, partial)
                continue
            picture = _read(folder / file, transparent=fill == "transparent")
            move = shift * poses.scale_of(picture.pixels.shape)
            if poses.angles is None:
                pixels = shift_image(picture.pixels, move)
            else:
                pixels = _turn(picture, fill, angle=angle, mirrored=mirror, shift=tuple(move), expand=expand)
            _write(picture._replace(pixels=pixels), partial)


class _Picture(NamedTuple):
    """An image file: what it holds, and how it is written again."""

    pixels: NDArray[Any]
    has_alpha: bool
    mode: str
    format: str
    metadata: dict[str, Any]


def _read(path: Path, *, transparent: bool) -> _Picture:
    """Read pixels as they are stored, but upright as the camera says, and with opacity if asked for."""
    try:
        with Image.open(path, formats=FORMATS) as opened:
            metadata = {name: opened.info[name] for name in _KEPT if opened.info.get(name)}
            kind = str(opened.format)
            if is_deep_colour(opened):
                pixels, mode = deep_colours(opened, path, path), "deep"
            else:
                image = ImageOps.exif_transpose(opened)
                if "exif" in metadata:
                    metadata["exif"] = image.getexif().tobytes()  # without the orientation, which the pixels have now
                image = _plain(image)
                pixels, mode = np.asarray(image), image.mode
    except OSError as error:
        raise DatasetError(f"cannot read the image {path} ({error}); it was there before the match.") from None
    has_alpha = mode in ("LA", "RGBA") or (mode == "deep" and pixels.shape[2] in (2, 4))
    if transparent and not has_alpha:
        if pixels.dtype not in (np.uint8, np.uint16) or mode == "CMYK" or (kind, pixels.itemsize) == ("TIFF", 2):
            raise InputError(f"{path} is of a kind ({mode}) that cannot be transparent; fill with background.")
        white = np.iinfo(pixels.dtype).max
        planes = pixels.reshape(*pixels.shape[:2], -1)
        pixels = np.concatenate([planes, np.full_like(planes[..., :1], white)], axis=-1)
        has_alpha, mode = True, mode if pixels.itemsize == 1 else "deep"
    return _Picture(pixels, has_alpha, mode, kind, metadata)


def _plain(image: Image.Image) -> Image.Image:
    """Colours instead of a palette and the like."""
    if image.mode == "1":
        return image.convert("L")
    if image.mode in ("P", "PA", "La", "RGBa", "YCbCr", "HSV", "LAB") or "transparency" in image.info:
        grey = image.mode in ("L", "La")
        return image.convert(("LA" if grey else "RGBA") if image.has_transparency_data else "RGB")
    return image


def _write(picture: _Picture, path: Path) -> None:
    pixels = np.ascontiguousarray(picture.pixels)
    if picture.mode == "deep":
        imagecodecs = library("imagecodecs", extra="tiff", what=path)
        encode = imagecodecs.png_encode if picture.format == "PNG" else imagecodecs.tiff_encode
        path.write_bytes(encode(pixels))
        return
    quality = {"quality": 95, "subsampling": 0} if picture.format == "JPEG" else {}
    if picture.mode == "CMYK":  # which four channels would not tell
        image = Image.frombytes("CMYK", pixels.shape[1::-1], pixels.tobytes())
    else:
        image = Image.fromarray(pixels)
    image.save(path, format=picture.format, **picture.metadata, **quality)


def _turn(picture: _Picture, fill: str | float, **motion: Any) -> NDArray[Any]:
    level = None if isinstance(fill, str) else float(fill)
    pixels = picture.pixels
    if not picture.has_alpha:
        return turn_image(pixels, fill=level, **motion)
    # colours count by their opacity, or hidden ones would shine through
    white = np.iinfo(pixels.dtype).max
    opacity = pixels[..., -1:].astype(np.float32) / white
    weighted = np.concatenate([pixels[..., :-1] * opacity, white * opacity], axis=-1)
    outside: NDArray[np.float64] | None = None
    if fill == "transparent":
        outside = np.zeros(pixels.shape[2])
    elif level is not None:
        outside = np.append(np.full(pixels.shape[2] - 1, level), white)
    turned = turn_image(weighted, fill=outside, **motion)
    alpha = np.clip(turned[..., -1:], 0, white)
    colours = turned[..., :-1] * white / np.maximum(alpha, 0.5)
    return as_type(np.concatenate([colours, alpha], axis=-1), pixels.dtype)
