"""Frames: placement of images on the canvas of a dataset, by their whole canvas, their content or one common scale."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import FRAMES, Frame, check_choice, parse_frames
from bispectral_ot.datasets.warp import Size, as_pixels, as_planes, border_pixels, resample, to_grey
from bispectral_ot.engines import Block, fill_rows
from bispectral_ot.errors import InputError, warn
from bispectral_ot.memory import check_fits

Images = Sequence[NDArray[Any]]
Labels = NDArray[Any] | None
_REACH = 1.9  # half a side of the canvas in radii of gyration of the content (a filled disk reaches 1.41, a rod 1.73)
MOST_CLEAR = 0.5  # of the images of a set must have content on a background, for frame "content" without a warning
MANY_MARGINS, _FEW_MARGINS = 0.8, 0.2  # fractions of images with a filled margin: an editor made them, or an accident


class Content(NamedTuple):
    """Content of an image: its centroid (row, column), radius of gyration, and whether it lies on a background."""

    centre: tuple[float, float]
    radius: float
    is_clear: bool


class Picture(NamedTuple):
    """Rectangle that an editor turned, shrank or moved, on its canvas or a larger one, with one colour around it."""

    centre: tuple[float, float]
    side: float
    degrees: float
    inside: NDArray[np.bool_]
    rim: NDArray[np.bool_]  # the outermost three pixels of it

    def alone(self, image: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Image (height, width, channels) with the median colour of the rim around the picture, and this colour."""
        background = np.median(image[self.rim], axis=0)
        return np.where(self.inside[..., None], image, background.astype(image.dtype)), background


@dataclass(frozen=True)
class Placement:
    """Placement of images on a canvas: ``placement(images, size)`` of a batch (n, height, width[, channels]).

    ``"canvas"`` fits the whole image into the canvas; ``"picture"`` fits the rectangle inside a margin that an editor
    filled; ``"content"`` brings the centroid of the content to the centre and its radius of gyration to one size;
    ``"common"`` shows ``pixels`` pixels of every image along the longer side, about its centre, as ``"picture"`` does
    where an image has no margin. What an editor filled is left out by ``"picture"``, and by all if ``masked``: it takes
    the median colour just within the picture.
    """

    frame: Frame = "canvas"
    pixels: float | None = None
    masked: bool = False

    def __post_init__(self) -> None:
        check_choice("frame", self.frame, FRAMES)
        if self.frame == "common" and not (self.pixels is not None and self.pixels > 0):
            raise InputError(f"frame='common' needs a positive number of pixels, got {self.pixels!r}.")

    def __call__(self, images: NDArray[Any], size: Size) -> NDArray[Any]:
        """Images (n, *size[, channels]) of the same type: uint8, uint16 or float32."""
        planes = as_planes(images)
        if self.frame == "canvas" and planes.shape[1:3] == size:
            return images
        shape = len(images), *size, planes.shape[3]
        if math.prod(shape) > 2**24:  # with two pixels and weights for each row and column
            needed = math.prod(shape) * images.itemsize + math.prod(shape[1:]) * 4 + 64 * sum(size)
            check_fits(needed, f"resizing {len(images):,} images to {size[0]} x {size[1]}", "ask for a smaller size")
        out, step = np.empty(shape, dtype=images.dtype), 2**22 // planes[0].size
        if len(images) == 1:  # a file, which is not a stage of its own
            out[:] = self._place(None, planes, size)
        else:
            fill_rows(self._place, out, block_rows=step, rows=(planes,), shared=(size,), stage="resize")
        return out.reshape(len(images), *size, *images.shape[3:])

    def _place(self, _block: Block | None, planes: NDArray[Any], size: Size) -> NDArray[Any]:
        """Images (n, height, width, channels) on the canvas; beyond them is the median of their border."""
        masked = self.masked or self.frame == "picture"
        if len(planes) > 1 and (masked or self.frame == "content"):  # each in another place
            return np.concatenate([self._place(None, image[None], size) for image in planes])
        height, width = planes.shape[1:3]
        centre, scale = (height / 2, width / 2), max(height / size[0], width / size[1])
        background = None
        picture = find_picture(planes[0]) if masked else None
        if picture is not None:
            planes, background = (each[None] for each in picture.alone(planes[0]))
        if self.frame == "content" and (content := find_content(planes[0])).is_clear:
            centre, scale = content.centre, 2 * _REACH * content.radius / min(size)
        elif self.frame == "picture" and picture is not None:
            centre, scale = picture.centre, picture.side / max(size)
        elif self.pixels is not None:
            scale = self.pixels / max(size)
        return resample(planes, size, scale, centre, background)


@dataclass(frozen=True)
class Canvas:
    """Map from decoded images to those of a dataset: ``canvas(images)`` of a batch; None keeps size or whole canvas."""

    size: Size | None = None
    grey: bool = False
    placement: Placement | None = None

    def __call__(self, images: NDArray[Any], what: str = "images") -> NDArray[Any]:
        """Images of the canvas; pixels are checked unless all is kept."""
        if self == Canvas():
            return images
        images = to_grey(as_pixels(images, what)) if self.grey else as_pixels(images, what)
        return (self.placement or Placement())(images, self.size or (images.shape[1], images.shape[2]))


def find_content(image: NDArray[Any]) -> Content:
    """Content of an image (height, width, channels): what differs from the median colour of its border."""
    height, width = image.shape[:2]
    border = border_pixels(image[None]).astype(np.float32)[0]
    background = np.median(border, axis=0)
    noise = float((1.4826 * np.median(np.abs(border - background), axis=0)).sum())
    difference = np.abs(image - background).sum(axis=2)
    # by more than four deviations of the border, and by more than a tenth of the largest differences
    mask = difference > max(4.0 * noise, 0.1 * float(np.quantile(difference, 0.99)))
    count = int(mask.sum())
    if not count or min(height, width) < 3:
        return Content((height / 2, width / 2), max(height, width) / (2 * _REACH), False)
    rows, columns = mask.sum(axis=1) / count, mask.sum(axis=0) / count
    y, x = np.arange(height) + 0.5, np.arange(width) + 0.5
    row, column = float(rows @ y), float(columns @ x)
    # a pixel itself has the variance 1/12 along each axis
    radius = math.sqrt(float(rows @ (y - row) ** 2 + columns @ (x - column) ** 2) + 1 / 6)
    # content on a background: at most a third of the border is content
    return Content((row, column), radius, float(border_pixels(mask[None, ..., None]).mean()) <= 1 / 3)


def find_picture(image: NDArray[Any]) -> Picture | None:
    """Rectangle inside a margin or corners of one colour in an image (height, width, channels), or None."""
    height, width = image.shape[:2]
    if min(height, width) < 8:
        return None
    corner = max(1, min(height, width) // 32)
    rows, columns = (np.r_[:corner, side - corner : side] for side in (height, width))
    fill = np.median(image[np.ix_(rows, columns)].reshape(-1, image.shape[2]), axis=0)
    difference = np.abs(image.astype(np.float32) - fill.astype(np.float32)).max(axis=2)
    unit = np.iinfo(image.dtype).max / 255 if image.dtype.kind in "iu" else float(np.ptp(image)) / 255 or 1.0
    # tolerances in 1/255 of the range: exact colours, and after JPEG
    best, most = None, 0.0
    for tolerance in (3.0, 24.0, 60.0):
        picture, filled = _filled_rectangle(difference / unit, tolerance)
        best, most = (picture, filled) if filled > most + 0.01 else (best, most)
        if most == 1:
            break
    return best


def _filled_rectangle(difference: NDArray[np.float32], tolerance: float) -> tuple[Picture | None, float]:
    """Smallest rectangle around the hull of what differs, and how much of it is filled: 1 if all else is equal."""
    from scipy.spatial import ConvexHull

    (height, width), mask = difference.shape, difference > tolerance
    rows = np.flatnonzero(mask.any(axis=1))
    left, right = mask[rows].argmax(axis=1), width - mask[rows, ::-1].argmax(axis=1)
    if len(rows) < 8 or right.max() - left.min() < 8:
        return None, 0.0
    corners = np.concatenate([np.stack([rows + i, x + 0.0], axis=1) for i in (0, 1) for x in (left, right)])
    hull = ConvexHull(corners)
    points, area = corners[hull.vertices], float(hull.volume)
    if area > 0.97 * height * width:
        return None, 0.0
    edges = np.roll(points, -1, axis=0) - points
    angles = np.unique(np.arctan2(edges[:, 0], edges[:, 1]) % (np.pi / 2))
    cos, sin = np.cos(angles), np.sin(angles)
    across = points[:, :1] * cos - points[:, 1:] * sin  # (points, angles)
    along = points[:, :1] * sin + points[:, 1:] * cos
    extents = np.stack([np.ptp(across, axis=0), np.ptp(along, axis=0)])
    best = int(np.argmin(extents.prod(axis=0)))
    filled, angle = area / float(extents[:, best].prod()), float(angles[best])
    bounds, own_angle, seen = _own_canvas(mask, edges)
    own = area / max(1, seen)
    if in_place := abs(math.log(own)) < 0.04 and (filled < 0.955 or abs(math.log(own)) < -math.log(filled)):
        filled, angle = own, own_angle
    elif filled < 0.955 or extents[:, best].prod() > 0.985 * height * width:  # or the whole canvas
        return None, 0.0
    c, s, degrees = math.cos(angle), math.sin(angle), math.degrees(angle)
    # corners of the pixels on a turned edge stand out, by half a diagonal on each side, and interpolation adds to it
    edge = (c + s) / 2 if 0.5 < degrees < 89.5 else 0.0
    if not in_place:
        bounds = np.array([[axis[:, best].min() + edge, axis[:, best].max() - edge] for axis in (across, along)])
    axes = _axes(height, width, angle)
    beyond = _beyond(axes, bounds)
    unlike = difference[(beyond <= -edge) & (beyond > -edge - 4)] > 0
    # waves of JPEG around the picture, in blocks
    if difference[beyond > 3].any() or not unlike.size or unlike.mean() < 0.8:  # less by noise
        bounds, edge = bounds if in_place else _steepest(axes, bounds, difference), 3.0
        beyond = _beyond(axes, bounds)
        if not (margin := difference[beyond > edge]).size or np.median(margin) > 3:  # or it has a texture of its own
            return None, 0.0
    else:
        filled = 1.0
    (u, v), side = bounds.mean(axis=1), float(np.ptp(bounds, axis=1).max())
    centre, rim = (float(u * c + v * s), float(v * c - u * s)), (beyond > -edge - 3) & (beyond <= -edge)
    found = Picture(centre, side, degrees, beyond <= -edge, rim)
    return (found, filled) if rim.any() else (None, 0.0)  # thinner than its edges


def _own_canvas(mask: NDArray[np.bool_], edges: NDArray[Any]) -> tuple[NDArray[Any], float, int]:
    """Canvas turned about its centre as slanted edges (n, 2) of a hull are: its sides, angle, and pixels within it."""
    lengths, slopes = np.hypot(*edges.T) * edges.all(axis=1), np.arctan2(edges[:, 0], edges[:, 1]) % (np.pi / 2)
    near = (np.abs(slopes - slopes[lengths.argmax()]) < 0.05) & (lengths > 0)
    angle = float(np.average(slopes[near], weights=lengths[near])) if near.any() else 0.0
    height, width = mask.shape
    axes = _axes(height, width, angle)
    middle = np.array([[axis[0, 0] + axis[-1, -1]] for axis in axes]) / 2
    turned = [middle + np.outer(sides, (-0.5, 0.5)) for sides in ((height, width), (width, height))]
    inside = [_beyond(axes, each) <= 0 for each in turned]
    best = min((0, 1), key=lambda i: int((mask != inside[i]).sum()))
    return turned[best], angle, int(inside[best].sum()) if near.any() else 0


def _axes(height: int, width: int, angle: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Coordinates of the centres of pixels (height, width) across and along a direction."""
    y, x = np.ogrid[0.5:height, 0.5:width]
    return y * math.cos(angle) - x * math.sin(angle), y * math.sin(angle) + x * math.cos(angle)


def _beyond(axes: Sequence[NDArray[Any]], bounds: NDArray[Any]) -> NDArray[Any]:
    """Distance (height, width) of pixels to the nearest side of a rectangle, negative within it."""
    distances = (np.abs(axis - each.mean()) - np.ptp(each) / 2 for axis, each in zip(axes, bounds, strict=True))
    return np.asarray(np.maximum(*distances))


def _steepest(axes: Sequence[NDArray[Any]], bounds: NDArray[Any], difference: NDArray[Any]) -> NDArray[Any]:
    """Sides of a rectangle, moved to the steepest rise of the mean difference from the fill along each."""
    found = bounds.copy()
    for i, (axis, other) in enumerate((axes, axes[::-1])):
        low, high = bounds[1 - i]
        middle = np.abs(other - (low + high) / 2) < 0.4 * (high - low)
        for j, depth in enumerate((axis - bounds[i, 0] + 3, bounds[i, 1] + 3 - axis)):
            near = middle & (depth >= 0) & (depth < 24)  # waves of JPEG reach two blocks and a pixel or two
            bins = depth[near].astype(np.int64)
            means = np.bincount(bins, difference[near], 24) / np.maximum(np.bincount(bins, minlength=24), 1)
            steps, at = np.diff(means).clip(0), np.arange(23)
            weights = steps * (abs(at - steps.argmax()) <= 1)  # the rise is spread over three pixels
            if weights.sum() > 0:
                found[i, j] += (weights @ at / weights.sum() - 2) * (1 - 2 * j)
    return found


def _is_plain_beyond(image: NDArray[Any], side: float) -> bool:
    """Whether an image has its background alone outside the square of a side about its centre."""
    planes = image.reshape(*image.shape[:2], -1).astype(np.float32)
    y, x = (np.abs(np.arange(size) - (size - 1) / 2) > side / 2 for size in image.shape[:2])
    difference = np.abs(planes - np.median(border_pixels(planes[None]), axis=1)[0]).max(axis=2)
    return bool((difference[y[:, None] | x] <= 0.1 * np.ptp(planes)).all())


class SetGeometry(NamedTuple):
    """Geometry of a sample of the images of a set."""

    sides: NDArray[np.int64]  # longer sides of the images in pixels
    clear: float  # fraction of the images whose content lies on a background
    pictures: float  # fraction of the images with a picture inside a filled margin
    picture_side: float | None  # longer side of the pictures in pixels, where most images have one and all the same
    part: float  # mean longer side of the pictures relative to that of their images; 0 unless most have one

    @classmethod
    def of(cls, images: Images) -> Self:
        """Geometry of images (height, width[, channels])."""
        planes = [image.reshape(*image.shape[:2], -1) for image in images]
        pictures = list(map(find_picture, planes))
        sides = np.array([picture.side for picture in pictures if picture is not None])
        part = 0.0
        if len(sides) > MANY_MARGINS * len(planes):
            part = float(sides.mean() / np.mean([max(image.shape[:2]) for image in planes]))
            both = zip(planes, pictures, strict=True)
            planes = [image if picture is None else picture.alone(image)[0] for image, picture in both]
        low, median, high = np.quantile(sides, (0.25, 0.5, 0.75)) if len(sides) > len(planes) / 2 else (0, 0, 1)
        clear = float(np.mean([find_content(image).is_clear for image in planes]))
        side = float(median) if high - low <= 0.03 * median else None
        return cls(np.array([max(image.shape[:2]) for image in planes]), clear, len(sides) / len(planes), side, part)

    def placement(self, frame: Frame, common: float) -> Placement:
        """Placement by a frame, with a scale of ``common`` pixels; what an editor filled in most is left out."""
        pixels = {"common": common, "picture": self.picture_side}.get(frame)
        return Placement(frame, pixels, masked=self.pictures > MANY_MARGINS and frame in ("content", "common"))

    @property
    def cut(self) -> Placement:
        """Placement that leaves filled margins and corners out, where more than a few images have them."""
        return self.placement("picture", 0) if self.pictures > _FEW_MARGINS else Placement()


class FrameChoice:
    """Frames of some sets, chosen before they are read; ``settings`` has the evidence for reports.

    ``frame`` is a frame or placement for all sets, one for each (a sequence, or a string with commas), or ``"auto"``,
    which cuts filled margins off where most images of a set have them, and shows images of different sizes at one scale
    where the larger ones have nothing but background more.
    """

    def __init__(self, frame: str | Sequence[str] | Placement = "auto") -> None:
        self.given = frame if isinstance(frame, Placement) else None
        self.frames = (frame.frame,) if isinstance(frame, Placement) else parse_frames(frame)
        self.is_automatic = self.frames == ("auto",)
        self.settings: dict[str, Any] = {}

    def looks_at(self, sets: Sequence[Any]) -> bool:
        """Whether images of these sets must be looked at."""
        if self.frames == ("canvas",):
            return False
        flat = all(each.kind == "images" for each in sets)
        if self.is_automatic:
            placed = any(each.dataset is not None and each.dataset.placement is not None for each in sets)
            return flat and not placed and any(each.files for each in sets)
        if not flat:
            raise InputError(f"frame {self.frames[0]!r} is for flat images; leave frame out for other kinds of data.")
        return True

    def __call__(self, samples: Sequence[Images], names: Sequence[str], labels: Labels = None) -> tuple[Placement, ...]:
        """Placements of sets, from samples of their images, and labels of the last one, the target."""
        if self.given is not None:
            return (self.given,) * len(samples)
        if self.is_automatic:
            return self.automatic(samples, names, labels)
        frames: Any = self.frames * len(samples) if len(self.frames) == 1 else self.frames
        if len(frames) != len(samples):
            raise InputError(f"frame has {len(frames)} names for {len(samples)} sets; give one, or one for each set.")
        geometries, placements = [SetGeometry.of(images) for images in samples], []
        common = min(float(each.sides.max()) for each in geometries)  # largest image of the set of small ones
        for found, frame, name in zip(geometries, frames, names, strict=True):
            if frame == "content" and not found.clear:
                raise InputError(f"frame 'content': no image of {name!r} shows content on a background; use 'canvas'.")
            if frame == "content" and found.clear < MOST_CLEAR:
                missed = f"{1 - found.clear:.0%} of the images of {name!r} show no content on a background,"
                warn(f"frame 'content': {missed} so their whole canvas is used.")
            if frame == "picture" and not found.pictures:
                warn(f"frame 'picture': {name!r} has no filled margins; whole images are used.")
            placements.append(found.placement(frame, common))
        return tuple(placements)

    def automatic(self, samples: Sequence[Images], names: Sequence[str], labels: Labels) -> tuple[Placement, ...]:
        """Placements for ``"auto"``."""
        geometries = [SetGeometry.of(images) for images in samples]
        if max(geometry.pictures for geometry in geometries) <= MANY_MARGINS:
            side = min(float(each.sides.max()) for each in geometries)
            larger = [image for images in samples for image in images if max(image.shape[:2]) > side]
            enlarged = larger and np.mean([_is_plain_beyond(image, side) for image in larger]) > 0.9
            return (Placement("common", side) if enlarged else Placement(),) * len(samples)
        placements = tuple(geometry.cut for geometry in geometries)
        framed = [name for name, placement in zip(names, placements, strict=True) if placement != Placement()]
        chosen = f"frame 'picture' was chosen for {', '.join(framed)}: most images have a margin or corners"
        warn(f"{chosen} filled by an editor; these are left out. Choose a frame with frame=... (--frame).")
        return placements
