"""Images and image files in their poses, resampled once at full resolution and bit depth."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageOps

from bispectral_ot.datasets.image_file import FORMATS, deep_colours, is_deep_colour
from bispectral_ot.datasets.io_errors import library
from bispectral_ot.datasets.warp import as_type, border_levels
from bispectral_ot.engines import Block, Threads, row_blocks
from bispectral_ot.errors import DatasetError, InputError
from bispectral_ot.files import whole_file
from bispectral_ot.poses.estimate import Poses

Pixels = NDArray[Any]
_MARGIN = 2  # background around an image before it is rotated, in pixels: borders blend into it
_NOT_INTERPOLATED = ("P", "PA", "La", "RGBa", "YCbCr", "HSV", "LAB")  # modes whose numbers cannot be averaged
_KEPT = ("icc_profile", "exif", "dpi", "compression")  # metadata that is written again


def turn_image(
    image: NDArray[Any],
    angle: float,
    *,
    mirrored: bool = False,
    shift: Sequence[float] = (0.0, 0.0),
    fill: ArrayLike | None = None,
    expand: bool = False,
) -> NDArray[Any]:
    """Image (height, width[, channels]) optionally mirrored left to right, then rotated, then shifted; keeps the type.

    Bicubic; quarter turns of square images are exact. ``angle`` is in degrees counter-clockwise as displayed, ``shift``
    in pixels down and to the right; ``fill`` is the value of the corners, one number or one per channel, the median of
    the border by default. ``expand`` enlarges the canvas so that nothing is cut off; there is no shift then.
    """
    image = image[:, ::-1] if mirrored else image
    quarters, rest = divmod(angle, 90.0)
    shift = (0.0, 0.0) if expand else (float(shift[0]), float(shift[1]))
    if rest == 0 and shift == (0.0, 0.0) and (expand or quarters % 2 == 0 or image.shape[0] == image.shape[1]):
        return np.ascontiguousarray(np.rot90(image, int(quarters)))
    planes = image.reshape(*image.shape[:2], -1).astype(np.float32)
    levels = border_levels(planes[None])[0] if fill is None else np.asarray(fill, dtype=np.float64)
    turned = []
    for plane, level in zip(np.moveaxis(planes, -1, 0), np.broadcast_to(levels, planes.shape[2]), strict=True):
        padded = Image.fromarray(np.pad(plane, _MARGIN, constant_values=level))
        options: Any = {"expand": expand, "translate": shift[::-1], "fillcolor": float(level)}
        rotated = padded.rotate(angle, Image.Resampling.BICUBIC, **options)
        turned.append(np.asarray(rotated)[_MARGIN:-_MARGIN, _MARGIN:-_MARGIN])
    moved = np.stack(turned, axis=-1)
    return as_type(moved.reshape(*moved.shape[:2], *image.shape[2:]), image.dtype)


def _moved(image: NDArray[Any], poses: Poses, i: int, fill: ArrayLike | None, *, expand: bool = False) -> NDArray[Any]:
    """Image in the pose of source i; shifts without rotations are cyclic."""
    scale = max(np.divide(image.shape[:2], poses.size))  # pixels per pixel of the images that were compared
    shift = np.zeros(2) if poses.shifts is None else poses.shifts[i] * scale
    if poses.angles is None:
        from scipy import ndimage

        steps = (*shift, *[0.0] * (image.ndim - 2))
        return as_type(ndimage.shift(image.astype(np.float32), steps, mode="grid-wrap"), image.dtype)
    mirrored = poses.mirrored is not None and bool(poses.mirrored[i])
    return turn_image(image, float(poses.angles[i]), mirrored=mirrored, shift=tuple(shift), fill=fill, expand=expand)


def _certain(poses: Poses, n: int, what: str, *, include_ambiguous: bool) -> NDArray[np.bool_]:
    if n != len(poses):
        raise InputError(f"there are {n} {what}s but {len(poses)} poses; give one {what} for each source.")
    return poses.found & (include_ambiguous | ~poses.ambiguous)


def upright_images(
    images: Pixels, poses: Poses, *, fill: float | None = None, expand: bool = False, include_ambiguous: bool = False
) -> Pixels:
    """Sources (n, height, width[, channels]), at any resolution, moved into their poses; ambiguous ones stay.

    ``fill`` is the value of the corners, by default the median of each border; ``expand`` enlarges the canvas so that
    nothing is cut off; ``include_ambiguous`` also moves ambiguous images. Clouds (n, points, 3) are rotated in space.
    """
    certain = _certain(poses, len(images), "image", include_ambiguous=include_ambiguous)
    if poses.rotations is not None:
        if images.ndim != 3 or images.shape[2] != 3:
            raise InputError("rotations in space move point clouds (n, points, 3), not other signals.")
        turned = np.einsum("nij,npj->npi", poses.rotations.as_matrix(), images)
        return np.where(certain[:, None, None], turned, images).astype(images.dtype)
    if expand and poses.angles is not None:  # images in the middle of squares that hold them at every angle
        height, width = images.shape[1:3]
        side = int(np.ceil(np.hypot(height, width)))
        top, left = (-(-(side - given) // 2) for given in (height, width))  # the same on both sides: the centre stays
        planes = images.reshape(*images.shape[:3], -1)
        levels = border_levels(planes) if fill is None else np.full((len(images), planes.shape[3]), fill)
        canvas = np.empty((len(images), height + 2 * top, width + 2 * left, planes.shape[3]), dtype=images.dtype)
        canvas[:] = as_type(levels, images.dtype)[:, None, None]
        canvas[:, top : top + height, left : left + width] = planes
        images = canvas.reshape(*canvas.shape[:3], *images.shape[3:])

    def move(block: Block) -> NDArray[Any]:
        rows = range(block.start, block.stop)
        return np.stack([_moved(images[i], poses, i, fill) if certain[i] else images[i] for i in rows])

    return np.concatenate(list(Threads().map(move, row_blocks(len(images), block_rows=32), stage="upright")))


def upright_files(
    poses: Poses,
    folder: str | Path,
    files: Sequence[str],
    out: str | Path,
    *,
    fill: float | None = None,
    expand: bool = False,
    include_ambiguous: bool = False,
) -> dict[str, int]:
    """Write files of a folder, moved into their poses, to ``out/upright``, and copies of others to ``out/ambiguous``.

    The originals are read at full resolution and depth and resampled once (bicubic); names, folders and metadata stay.
    Options are those of :func:`upright_images`. Returns the number of files in each folder.
    """
    if poses.rotations is not None:
        raise InputError("rotations in space do not apply to image files; use poses.rotations on your own data.")
    certain = _certain(poses, len(files), "file", include_ambiguous=include_ambiguous)

    def write(block: Block) -> None:
        for i in range(block.start, block.stop):
            original = Path(folder) / files[i]
            with whole_file(Path(out) / ("upright" if certain[i] else "ambiguous") / files[i]) as partial:
                if certain[i]:
                    _move_file(original, partial, poses, i, fill, expand=expand)
                else:
                    shutil.copyfile(original, partial)

    list(Threads().map(write, row_blocks(len(files), block_rows=4), stage="upright"))
    return {"upright": int(certain.sum()), "ambiguous": int((~certain).sum())}


def _read(path: Path) -> tuple[NDArray[Any], str, str, dict[str, Any]]:
    """Stored pixels in the orientation of the camera, and mode, format and metadata of the file."""
    try:
        with Image.open(path, formats=FORMATS) as opened:
            metadata, kind = {name: opened.info[name] for name in _KEPT if opened.info.get(name)}, str(opened.format)
            if metadata.get("compression", "raw") != "raw":  # LZW holds every mode without loss; fax and JPEG do not
                metadata["compression"] = "tiff_lzw"
            if is_deep_colour(opened):
                pixels, mode = deep_colours(opened, path, path), "deep"
            else:
                image = ImageOps.exif_transpose(opened)
                if "exif" in metadata:
                    metadata["exif"] = image.getexif().tobytes()  # without the orientation, which was applied
                if image.mode == "1":
                    image = image.convert("L")
                elif image.mode in _NOT_INTERPOLATED or "transparency" in image.info:
                    grey = image.mode in ("L", "La")
                    image = image.convert(("LA" if grey else "RGBA") if image.has_transparency_data else "RGB")
                pixels, mode = np.asarray(image), image.mode
    except OSError as error:
        raise DatasetError(f"cannot read the image {path} ({error}); it was there before the match.") from None
    return pixels, mode, kind, metadata


def _move_file(original: Path, path: Path, poses: Poses, i: int, fill: float | None, *, expand: bool) -> None:
    """Write a picture in the pose of source i; colours are weighted by opacity, so that hidden ones do not appear."""
    pixels, mode, kind, metadata = _read(original)
    has_alpha = mode in ("LA", "RGBA") or (mode == "deep" and pixels.shape[2] in (2, 4))
    if has_alpha and poses.angles is not None:
        white = np.iinfo(pixels.dtype).max
        opacity = pixels[..., -1:].astype(np.float32) / white
        outside = None if fill is None else np.append(np.full(pixels.shape[2] - 1, fill), white)
        weighted = np.concatenate([pixels[..., :-1] * opacity, white * opacity], axis=-1)
        turned = _moved(weighted, poses, i, outside, expand=expand)
        alpha = np.clip(turned[..., -1:], 0, white)
        colours = turned[..., :-1] * white / np.maximum(alpha, 0.5)
        pixels = as_type(np.concatenate([colours, alpha], axis=-1), pixels.dtype)
    else:
        pixels = np.ascontiguousarray(_moved(pixels, poses, i, fill, expand=expand))
    if mode == "deep":
        imagecodecs = library("imagecodecs", extra="tiff", what=path)
        path.write_bytes((imagecodecs.png_encode if kind == "PNG" else imagecodecs.tiff_encode)(pixels))
        return
    quality = {"quality": 95, "subsampling": 0} if kind == "JPEG" else {}
    is_cmyk = mode == "CMYK"  # four channels alone would be RGBA
    image = Image.frombytes("CMYK", pixels.shape[1::-1], pixels.tobytes()) if is_cmyk else Image.fromarray(pixels)
    image.save(path, format=kind, **metadata, **quality)
