"""Frames: placement of images on the canvas of a dataset, by their whole canvas, their content or one common scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import check_choice, parse_frames
from bispectral_ot.errors import DataWarning, InputError, warn
from bispectral_ot.literals import FRAMES, Frame

Point = tuple[float, float]
Images = Sequence[NDArray[Any]]
SAMPLE = 96  # images of each set that a choice of frames looks at
# Half a side of the canvas, in radii of gyration of the content: 1.41 is the radius of a filled disk, 1.73 the half
# length of a rod.
_REACH = 1.9
# Content differs from the background by more than this many deviations of the border (estimated from its median
# deviation), and by more than this fraction of the largest differences.
_NOISES, _LEAST = 4.0, 0.1
# Content lies on a background where at most this fraction of the border is content.
_MOST_BORDER = 1 / 3
# Fraction of the images of a set that must have content on a background, for frame "content" without a warning.
MOST_CLEAR = 0.5
# Fractions of images with a filled margin by which two sets were made in different ways.
_MANY, _FEW = 0.8, 0.2
# Tolerances of a filled margin, in 1/255 of the range: exact colours, and after JPEG.
_MARGIN_TOLERANCES = (3.0, 24.0, 60.0)
_WAVES = 20.0  # pixels: two blocks of JPEG and what is interpolated
# A picture: the convex hull of what is not margin fills this fraction of a rectangle, which is smaller than the canvas.
_LEAST_FILLED, _MOST_COVERED = 0.955, 0.97


class Content(NamedTuple):
    """Content of an image: what differs from the colour of its border.

    Attributes
    ----------
    centre : centroid (row, column), in pixels from the upper left corner of the image
    radius : radius of gyration in pixels
    background : (channels,) median of the border
    is_clear : whether there is content and it lies on a background
    """

    centre: Point
    radius: float
    background: NDArray[Any]
    is_clear: bool


class Picture(NamedTuple):
    """Rectangle that an editor turned, shrank or moved on a larger canvas, filling the rest with one colour.

    Attributes
    ----------
    centre : (row, column), in pixels
    side : longer side in pixels
    degrees : angle of the rectangle, 0 to 90
    inside : (height, width) mask of the pixels that are not margin
    """

    centre: Point
    side: float
    degrees: float
    inside: NDArray[np.bool_]


@dataclass(frozen=True)
class Placement:
    """Placement of images on a canvas: ``placement(images, size)`` of a batch (n, height, width[, channels]).

    Attributes
    ----------
    frame : ``"canvas"`` fits the whole image into the canvas; ``"picture"`` fits the rectangle inside a margin that an
        editor filled; ``"content"`` brings the centroid of the content to the centre and its radius of gyration to one
        size; ``"common"`` shows ``pixels`` pixels of every image, about its centre
    pixels : pixels along the longer side of the canvas, for ``"common"``, and for ``"picture"`` where an image has no
        margin; None for the whole image
    """

    frame: Frame = "canvas"
    pixels: float | None = None

    def __post_init__(self) -> None:
        check_choice("frame", self.frame, FRAMES)
        if self.frame == "common" and not (self.pixels is not None and self.pixels > 0):
            raise InputError(f"frame='common' needs a positive number of pixels, got {self.pixels!r}.")

    def __call__(self, images: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
        """Images (n, *size[, channels]) of the same type."""
        planes = images.reshape(*images.shape[:3], -1)
        placed = np.empty((len(images), *size, planes.shape[3]), dtype=images.dtype)
        for image, out in zip(planes, placed, strict=True):
            _place(self, image, out)
        return placed.reshape(len(images), *size, *images.shape[3:])


def _place(placement: Placement, image: NDArray[Any], out: NDArray[Any]) -> None:
    """Write an image (height, width, channels) to ``out``; beyond it is the median of its border."""
    height, width = image.shape[:2]
    centre: Point = (height / 2, width / 2)
    scale = max(height / out.shape[0], width / out.shape[1])
    background = border_median(image)
    if placement.frame == "common":
        scale = float(placement.pixels or 0) / max(out.shape[:2])
    elif placement.frame == "content":
        content = find_content(image)
        if content.is_clear:
            centre, scale = content.centre, 2 * _REACH * content.radius / min(out.shape[:2])
    elif placement.frame == "picture":
        picture = find_picture(image)
        if picture is not None:
            centre, scale = picture.centre, picture.side / max(out.shape[:2])
            background = _rim_median(image, picture.inside)
            image = np.where(picture.inside[..., None], image, background.astype(image.dtype))
        elif placement.pixels is not None:
            scale = placement.pixels / max(out.shape[:2])
    rows, columns = (
        _area_weights(given, wanted, scale, middle)
        for given, wanted, middle in zip((height, width), out.shape[:2], centre, strict=True)
    )
    covered = np.outer(rows.sum(axis=1), columns.sum(axis=1))
    strips = (rows @ image.reshape(height, -1).astype(np.float32)).reshape(len(rows), width, -1)
    values = np.matmul(columns, strips) + (1 - covered)[..., None] * background
    if out.dtype.kind in "iu":
        values = np.rint(values).clip(np.iinfo(out.dtype).min, np.iinfo(out.dtype).max)
    out[:] = values


def _area_weights(given: int, wanted: int, scale: float, centre: float) -> NDArray[np.float32]:
    """Weights (wanted, given) of the pixels along an axis: area means, or bilinear where images grow.

    A row sums to less than 1 where it reaches beyond the image.
    """
    middles = centre + (np.arange(wanted) + 0.5 - wanted / 2) * scale
    pixels = np.arange(given)
    if scale > 1:
        left = (middles - scale / 2)[:, None]
        covered = (np.minimum(pixels + 1, left + scale) - np.maximum(pixels, left)) / scale
    else:
        covered = 1 - np.abs(pixels + 0.5 - middles[:, None])
    weights: NDArray[np.float32] = covered.clip(0.0).astype(np.float32)
    return weights


def border_median(image: NDArray[Any]) -> NDArray[np.float64]:
    """Median (channels,) of the border pixels of an image (height, width, channels)."""
    median: NDArray[np.float64] = np.median(_border(image), axis=0)
    return median.astype(np.float64)


def _border(image: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([image[0], image[-1], image[1:-1, 0], image[1:-1, -1]])


def find_content(image: NDArray[Any]) -> Content:
    """Content of an image (height, width, channels).

    The background is the median of the border; content differs from it by more than four deviations of the border and
    by a tenth of the largest differences (their 99 % quantile). An image without content, or whose border is content
    for more than a third, has ``is_clear=False``.
    """
    height, width = image.shape[:2]
    border = _border(image).astype(np.float32)
    background = np.median(border, axis=0)
    noise = float((1.4826 * np.median(np.abs(border - background), axis=0)).sum())
    difference = np.abs(image - background).sum(axis=2)
    threshold = max(_NOISES * noise, _LEAST * float(np.quantile(difference, 0.99)))
    mask = difference > threshold
    count = int(mask.sum())
    touching = float(_border(mask).mean())
    if not count or min(height, width) < 3:
        return Content((height / 2, width / 2), max(height, width) / (2 * _REACH), background, False)
    rows, columns = mask.sum(axis=1) / count, mask.sum(axis=0) / count
    y, x = np.arange(height) + 0.5, np.arange(width) + 0.5
    row, column = float(rows @ y), float(columns @ x)
    # a pixel itself has the variance 1/12 along each axis
    radius = math.sqrt(float(rows @ (y - row) ** 2 + columns @ (x - column) ** 2) + 1 / 6)
    return Content((row, column), radius, background, touching <= _MOST_BORDER)


def center_content(planes: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Images (n, height, width, channels) with their content in frame ``"content"``, and which of them have content."""
    placed = np.empty(planes.shape, dtype=np.float32)
    for image, out in zip(planes.astype(np.float32), placed, strict=True):
        _place(Placement("content"), image, out)
    return placed, np.array([find_content(image).is_clear for image in planes])


def find_picture(image: NDArray[Any]) -> Picture | None:
    """Rectangle inside a filled margin of an image (height, width, channels); None where there is none.

    The margin has the median colour of the corners. What differs from it has a convex hull, and where this fills its
    smallest rectangle, that is the picture: turned on an enlarged canvas, shrunk, or moved.
    """
    height, width = image.shape[:2]
    if min(height, width) < 8:
        return None
    corner = max(1, min(height, width) // 32)
    rows, columns = (np.r_[:corner, side - corner : side] for side in (height, width))
    corners = image[np.ix_(rows, columns)].reshape(-1, image.shape[2])
    fill = np.median(corners, axis=0)
    difference = np.abs(image.astype(np.float32) - fill.astype(np.float32)).max(axis=2)
    unit = np.iinfo(image.dtype).max / 255 if image.dtype.kind in "iu" else float(np.ptp(image)) / 255
    found = [_filled_rectangle(difference > tolerance * unit) for tolerance in _MARGIN_TOLERANCES]
    pictures = [picture for picture in found if picture is not None]
    best = pictures[0] if pictures else None
    for other in pictures[1:]:
        # JPEG makes waves around the picture, on all sides alike; a dark rim of the picture itself is seldom so even
        if 2 < pictures[0].side - other.side <= _WAVES and math.dist(pictures[0].centre, other.centre) < 2:
            best = other
    return best


def _filled_rectangle(mask: NDArray[np.bool_]) -> Picture | None:
    """Smallest rectangle around the convex hull of a mask, where the hull fills it but it does not fill the image."""
    from scipy.spatial import ConvexHull

    height, width = mask.shape
    rows = np.flatnonzero(mask.any(axis=1))
    if len(rows) < 8:
        return None
    left = mask[rows].argmax(axis=1)
    right = width - mask[rows, ::-1].argmax(axis=1)
    if right.max() - left.min() < 8:
        return None
    corners = np.concatenate([np.stack([rows + i, x + 0.0], axis=1) for i in (0, 1) for x in (left, right)])
    hull = ConvexHull(corners)
    points, area = corners[hull.vertices], float(hull.volume)
    if area > _MOST_COVERED * height * width:
        return None
    edges = np.roll(points, -1, axis=0) - points
    angles = np.unique(np.arctan2(edges[:, 0], edges[:, 1]) % (np.pi / 2))
    cos, sin = np.cos(angles), np.sin(angles)
    across = points[:, :1] * cos - points[:, 1:] * sin  # (points, angles)
    along = points[:, :1] * sin + points[:, 1:] * cos
    extents = np.stack([np.ptp(across, axis=0), np.ptp(along, axis=0)])
    best = int(np.argmin(extents.prod(axis=0)))
    if area < _LEAST_FILLED * float(extents[:, best].prod()):
        return None
    u, v = ((axis[:, best].min() + axis[:, best].max()) / 2 for axis in (across, along))
    centre = (float(u * cos[best] + v * sin[best]), float(v * cos[best] - u * sin[best]))
    degrees = math.degrees(float(angles[best]))
    # corners of the pixels on a turned edge stand out, by half a diagonal on each side, and interpolation adds to it
    turned = 0.5 < degrees < 89.5
    beyond = cos[best] + sin[best] if turned else 0.0
    inside = _inside(points, height, width, 1.0 if turned else 0.0)
    return Picture(centre, float(extents[:, best].max() - beyond), degrees, inside)


def _inside(points: NDArray[np.float64], height: int, width: int, depth: float) -> NDArray[np.bool_]:
    """Mask of the pixels whose centres lie ``depth`` pixels within a convex polygon (n, 2), in any order of corners."""
    y, x = np.arange(height)[:, None] + 0.5, np.arange(width) + 0.5
    following = np.roll(points, -1, axis=0)
    (y0, x0), (dy, dx) = points.T, (following - points).T
    turn = np.sign(np.sum(points[:, 1] * following[:, 0] - points[:, 0] * following[:, 1]))
    inside = np.ones((height, width), dtype=np.bool_)
    for i in range(len(points)):
        inside &= turn * (dx[i] * (y - y0[i]) - dy[i] * (x - x0[i])) >= depth * math.hypot(dy[i], dx[i])
    return inside


def _rim_median(image: NDArray[Any], inside: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Median colour (channels,) of the pixels next to the margin."""
    from scipy.ndimage import binary_erosion

    inner = binary_erosion(inside, iterations=2)
    rim = inner & ~binary_erosion(inner, iterations=2)
    chosen = image[rim if rim.any() else inside]
    median: NDArray[np.float64] = np.median(chosen, axis=0)
    return median.astype(np.float64)


class SetGeometry(NamedTuple):
    """Geometry of a sample of the images of a set.

    Attributes
    ----------
    sides : longer sides of the images in pixels
    clear : fraction of the images whose content lies on a background
    pictures : fraction of the images with a picture inside a filled margin
    picture_side : longer side of the pictures in pixels, where most images have one and all the same; else None
    """

    sides: NDArray[np.int64]
    clear: float
    pictures: float
    picture_side: float | None

    @classmethod
    def of(cls, images: Sequence[NDArray[Any]]) -> SetGeometry:
        """Geometry of images (height, width[, channels])."""
        planes = [image.reshape(*image.shape[:2], -1) for image in images]
        found = [find_picture(image) for image in planes]
        sides = np.array([picture.side for picture in found if picture is not None])
        alike = len(sides) > len(planes) / 2 and float(np.ptp(np.quantile(sides, (0.25, 0.75)))) <= 0.03 * float(
            np.median(sides)
        )
        return cls(
            np.array([max(image.shape[:2]) for image in planes]),
            float(np.mean([find_content(image).is_clear for image in planes])),
            len(sides) / len(planes),
            float(np.median(sides)) if alike else None,
        )


class FrameChoice:
    """Frames of some sets, chosen before they are read.

    Parameters
    ----------
    frame
        ``"auto"``, a frame (``"canvas"``, ``"picture"``, ``"content"`` or ``"common"``) for all sets, or one for each:
        a sequence, or a string with commas; or a placement for all sets. ``"auto"`` cuts filled margins off where most
        images of one set have them and those of another have not; else images keep their whole canvas.

    Attributes
    ----------
    settings : evidence for the choice, for reports
    """

    def __init__(self, frame: str | Sequence[str] | Placement = "auto") -> None:
        self.given = frame if isinstance(frame, Placement) else None
        self.frames = (frame.frame,) if isinstance(frame, Placement) else parse_frames(frame)
        self.settings: dict[str, Any] = {}

    @property
    def is_automatic(self) -> bool:
        """Whether the images decide."""
        return self.frames == ("auto",)

    def looks_at(self, sets: Sequence[Any]) -> bool:
        """Whether images of these sets must be looked at.

        ``"auto"`` looks at images in files that no frame was chosen for before; arrays are taken as they are given.
        """
        if self.frames == ("canvas",):
            return False
        flat = all(each.kind == "images" for each in sets)
        if self.is_automatic:
            placed = any(each.dataset is not None and each.dataset.placement is not None for each in sets)
            return flat and not placed and any(each.files for each in sets)
        if not flat:
            raise InputError(f"frame {self.frames[0]!r} is for flat images; leave frame out for other kinds of data.")
        return True

    def __call__(self, samples: Sequence[Images], names: Sequence[str], labels: Any = None) -> tuple[Placement, ...]:
        """Placements of sets, from samples of their images; ``labels`` are those of the last sample, or None."""
        if self.given is not None:
            placements = (self.given,) * len(samples)
        elif self.is_automatic:
            placements = self.automatic(samples, names, labels)
        else:
            frames = self.frames * len(samples) if len(self.frames) == 1 else self.frames
            if len(frames) != len(samples):
                raise InputError(
                    f"frame has {len(frames)} names for {len(samples)} sets; give one, or one for each set."
                )
            geometries = [SetGeometry.of(images) for images in samples]
            placements = tuple(
                _placement(frame, geometry, name, geometries)
                for frame, geometry, name in zip(frames, geometries, names, strict=True)
            )
        return placements

    def automatic(self, samples: Sequence[Images], names: Sequence[str], labels: Any) -> tuple[Placement, ...]:
        """Placements for ``"auto"``."""
        geometries = [SetGeometry.of(images) for images in samples]
        fractions = [geometry.pictures for geometry in geometries]
        if max(fractions) < _MANY or min(fractions) > _FEW:
            return (Placement(),) * len(samples)
        framed = [name for name, fraction in zip(names, fractions, strict=True) if fraction >= _MANY]
        warn(
            f"frame 'picture' was chosen for {', '.join(framed)}: most images have a margin that an editor filled, "
            "which is cut off. To choose yourself, use frame=... (--frame).",
            DataWarning,
        )
        return tuple(
            Placement("picture", geometry.picture_side) if geometry.pictures >= _MANY else Placement()
            for geometry in geometries
        )


def common_pixels(geometries: Sequence[SetGeometry]) -> float:
    """Side of one canvas for all sets at one scale: the largest image of the set whose largest image is smallest.

    A canvas that an editor enlarged is cut at its centre to the size of those that were not.
    """
    return float(min(geometry.sides.max() for geometry in geometries))


def _placement(frame: Any, geometry: SetGeometry, name: str, geometries: Sequence[SetGeometry]) -> Placement:
    """Placement by a frame that was asked for; what it needs must be there."""
    if frame == "common":
        return Placement("common", common_pixels(geometries))
    if frame == "content":
        if not geometry.clear:
            raise InputError(
                f"frame 'content': no image of {name!r} shows content on a background (it is constant, or its content "
                "touches the border all around); use frame 'canvas'."
            )
        if geometry.clear < MOST_CLEAR:
            warn(
                f"frame 'content': {1 - geometry.clear:.0%} of the images of {name!r} show no content on a background "
                "and keep their whole canvas; frame 'canvas' treats all alike.",
                DataWarning,
            )
    if frame == "picture":
        if not geometry.pictures:
            warn(f"frame 'picture': no image of {name!r} has a filled margin; all keep their canvas.", DataWarning)
        return Placement("picture", geometry.picture_side)
    return Placement(frame)
