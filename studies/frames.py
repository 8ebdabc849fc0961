"""Exported images (rotated on an enlarged canvas, shifted, scaled, cropped, compressed), matched by every frame."""

from __future__ import annotations

import io
import tempfile
import warnings
import zlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageFilter

import bispectral_ot as bot
from bispectral_ot import runtime
from bispectral_ot.checks import check_choice, check_integer
from bispectral_ot.datasets.frames import Placement, SetGeometry
from bispectral_ot.drawing import save
from bispectral_ot.errors import InputError
from bispectral_ot.files import write_json, write_text
from studies.cells import CellStore
from studies.markdown import markdown_table
from studies.preset import file_checksum

FRAMES = ("canvas", "picture", "common", "content", "auto")
# Options that stand for a frame: a symmetry, or colours that do not count.
OPTIONS = {"similarity": {"symmetry": "similarity"}, "affine": {"intensity": "affine"}}
# Changes of the sources; all except the first also rotate them by a random angle.
CHANGES = (
    "upright",
    "in place",
    "enlarged, border",
    "enlarged, black",
    "enlarged, white",
    "enlarged, mirrored",
    "enlarged, JPEG",
    "shifted",
    "scaled",
    "resized",
    "cropped",
    "JPEG",
    "blurred",
    "brightness",
    "colours",
    "in place, black",
    "in place, white",
)
_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")


def run_frames(
    out: str | Path,
    datasets: Sequence[str],
    *,
    frames: Sequence[str] = (*FRAMES, *OPTIONS),
    changes: Sequence[str] = CHANGES,
    per_class: int = 10,
    side: int = 128,
    seeds: int = 1,
    shaded: bool = False,
) -> list[dict[str, Any]]:
    """Match one half of each folder, changed as by an export, with the other half, in each frame.

    Images are reduced to ``side`` pixels, written to files, and matched by their folders as a user would. Writes a cell
    for each figure, all of them to ``results.json``, and ``table.md`` (transport) and ``nearest.md`` (nearest target).

    Parameters
    ----------
    datasets
        Folders of images with a sub-folder for each class.
    frames
        Frames; also ``"similarity"``, the symmetry, and ``"affine"``, the intensity.
    changes
        Changes of the source half.
    per_class
        Maximum number of images of each class on each side.
    side
        Longer side of the images before they are changed.
    seeds
        Number of random splits and changes.
    shaded
        Whether silhouettes become textured objects of different sizes on an uneven, noisy background, as pollen is.
    """
    for change in changes:
        check_choice("changes", change, CHANGES)
    for frame in frames:
        check_choice("frames", frame, (*FRAMES, *OPTIONS))
    for name, value in (("per_class", per_class), ("side", side), ("seeds", seeds)):
        check_integer(name, value, minimum=1)
    store = CellStore(out, "frames")
    tasks = [(folder, seed, change) for folder in datasets for seed in range(seeds) for change in changes]
    cells: list[dict[str, Any]] = []
    with store.recorded({"datasets": [Path(each).name for each in datasets], "seeds": seeds, "per_class": per_class}):
        for number, (folder, seed, change) in enumerate(tasks):
            runtime.progress("cells", number, len(tasks))
            configs = [
                {"dataset": Path(folder).name + shaded * ", shaded", "change": change, "frame": frame, "seed": seed}
                | {"per_class": per_class, "side": side, "checksum": file_checksum(folder)}
                for frame in frames
            ]
            with tempfile.TemporaryDirectory() as place:
                options: Any = {"per_class": per_class, "side": side, "seed": seed, "shaded": shaded}
                sides = cache(partial(write_sides, Path(folder), Path(place), change, **options))
                cells += [store.cell(config, partial(_cell, config, sides)) for config in configs]
            write_json(Path(out) / "results.json", cells)
            for column, file in (("accuracy", "table.md"), ("nearest", "nearest.md")):
                write_text(Path(out) / file, frames_table(cells, column))
        runtime.progress("cells", len(tasks), len(tasks))
    return cells


def _cell(config: dict[str, Any], sides: Callable[[], tuple[Path, Path]]) -> dict[str, Any]:
    options: dict[str, Any] = OPTIONS.get(config["frame"], {"frame": config["frame"]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = bot.match(*sides(), **options)
        except InputError:  # the frame does not suit the images: no source is recognized by it
            return {"accuracy": 0.0, "nearest": 0.0, "chosen": []}
    details = found.labels()
    return {
        "accuracy": float((details.label == found.source_labels).mean()),
        "nearest": float((details.nearest_label == found.source_labels).mean()),
        "chosen": list(found.settings["frame"]),
    }


def write_sides(
    folder: Path, place: Path, change: str, *, per_class: int, side: int, seed: int, shaded: bool = False
) -> tuple[Path, Path]:
    """Two disjoint halves of a folder of classes as files, the first one changed; the folders of both."""
    classes = sorted(path for path in folder.iterdir() if path.is_dir())
    if not classes:
        raise InputError(f"{folder} has no folder for each class; this study needs labels.")
    random = np.random.default_rng([seed, CHANGES.index(change)])
    for each in classes:
        files = sorted(path for path in each.iterdir() if path.suffix.lower() in _SUFFIXES)
        order = np.random.default_rng([seed, zlib.crc32(each.name.encode())]).permutation(len(files))
        count = min(per_class, len(files) // 2)
        for half, chosen in (("source", order[:count]), ("target", order[count : 2 * count])):
            (place / half / each.name).mkdir(parents=True)
            for i in chosen:
                image = _opened(files[i], side)
                image = shade(image, each.name, int(i)) if shaded else image
                image = changed(image, change, random) if half == "source" else image
                image.save(place / half / each.name / f"{files[i].stem}.png")
    return place / "source", place / "target"


def _opened(file: Path, side: int) -> Image.Image:
    with Image.open(file) as image:
        pixels = image.convert("L" if image.mode in ("1", "L") else "RGB")
    pixels.thumbnail((side, side), Image.Resampling.BOX)
    return pixels


def shade(image: Image.Image, name: str, number: int) -> Image.Image:
    """Silhouette as a textured object, coloured by its class, on a graded and noisy background with a vignette."""
    from scipy.ndimage import distance_transform_edt, gaussian_filter

    kind = np.random.default_rng(zlib.crc32(name.encode()))
    random = np.random.default_rng([number, zlib.crc32(name.encode())])
    colour, grain, roughness = (
        kind.uniform([150, 100, 40], [220, 170, 120]),
        kind.uniform(0.8, 3.5),
        kind.uniform(10, 35),
    )
    shape = image.crop(image.point(lambda level: 255 * (level > 127)).getbbox())
    scale = random.uniform(0.6, 1.0)
    shape = shape.resize((max(8, round(scale * shape.width)), max(8, round(scale * shape.height))))
    around = np.rint(random.uniform(0.06, 0.22, (2, 2)) * max(shape.size)).astype(int)
    mask = np.pad(np.asarray(shape, float) / 255, around)[..., None]
    y, x = ((np.indices(mask.shape[:2]).T - np.array(mask.shape[:2]) / 2) / (max(mask.shape) / 2)).T
    slope = random.uniform(-12, 12, 2) @ [y.ravel(), x.ravel()]
    uneven = slope.reshape(y.shape) - random.uniform(0, 15) * (y**2 + x**2)
    texture = gaussian_filter(random.normal(size=y.shape), grain)
    depth = np.minimum(distance_transform_edt(mask[..., 0] > 0.5) / (0.12 * max(shape.size)), 1)
    content = colour * (0.65 + 0.35 * depth[..., None]) + (roughness * texture / texture.std())[..., None]
    pixels = mask * content + (1 - mask) * (np.array([235, 228, 215]) + uneven[..., None])
    pixels += 5 * gaussian_filter(random.normal(size=pixels.shape), (0.6, 0.6, 0))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def changed(image: Image.Image, change: str, random: np.random.Generator) -> Image.Image:
    """One image, rotated by a random angle and changed as by an export."""
    if change == "upright":
        return image
    degrees = random.uniform(0, 360)
    border = _border_colour(image)
    shift = (0.0, 0.0)
    if change == "shifted":
        direction, length = random.uniform(0, 2 * np.pi), random.uniform(0, 0.16) * image.width
        shift = (length * np.cos(direction), length * np.sin(direction))
    if change == "enlarged, mirrored":
        return _mirrored(image, degrees)
    fills = {"enlarged, black": 0, "enlarged, JPEG": 0, "enlarged, white": 255}
    fills |= {"in place, black": 0, "in place, white": 255}
    fill = border
    if change in fills:
        fill = fills[change] if image.mode == "L" else (fills[change],) * 3
    expand = change.startswith("enlarged")
    moved: Any = shift
    turned = image.rotate(degrees, Image.Resampling.BILINEAR, expand=expand, translate=moved, fillcolor=fill)
    if change.endswith("JPEG"):
        file = io.BytesIO()
        turned.save(file, "JPEG", quality=30)
        turned = Image.open(file)
    elif change in ("scaled", "resized"):
        factor = random.uniform(0.6, 1.4) if change == "scaled" else 2 ** random.uniform(-1, 1)
        size = tuple(max(8, round(factor * each)) for each in image.size)
        small = turned.resize(size, Image.Resampling.BICUBIC)  # type: ignore[arg-type]
        if change == "resized":
            return small
        turned = Image.new(image.mode, image.size, border)
        turned.paste(small, tuple((one - other) // 2 for one, other in zip(image.size, size, strict=True)))  # type: ignore[arg-type]
    elif change == "cropped":
        width, height = image.size
        turned = turned.crop((round(0.05 * width), round(0.05 * height), round(0.95 * width), round(0.95 * height)))
    elif change == "blurred":
        turned = turned.filter(ImageFilter.GaussianBlur(0.01 * max(image.size)))
    elif change == "brightness":
        pixels = 128 + (np.asarray(turned, float) - 128) * random.uniform(0.8, 1.2) + 51 * random.uniform(-1, 1)
        turned = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    elif change == "colours":  # one stain, lamp or camera for all sources
        pixels = np.asarray(turned.convert("RGB"), float) * [1.2, 0.7, 0.9] + [-20, 25, 5]
        turned = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    return turned


def _border_colour(image: Image.Image) -> Any:
    pixels = np.asarray(image).reshape(image.height, image.width, -1)
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    colour = [round(float(value)) for value in np.median(border, axis=0)]
    return colour[0] if image.mode == "L" else tuple(colour)


def _mirrored(image: Image.Image, degrees: float) -> Image.Image:
    """Image rotated on an enlarged canvas, with its reflection in the corners."""
    from scipy.ndimage import affine_transform

    angle, width, height = np.radians(degrees), image.width, image.height
    cos, sin = np.cos(angle), np.sin(angle)
    shape = np.ceil([width * abs(sin) + height * abs(cos), width * abs(cos) + height * abs(sin)]).astype(int)
    turn = np.array([[cos, sin], [-sin, cos]])
    offset = (np.array([height, width]) - 1) / 2 - turn @ ((shape - 1) / 2)
    planes = np.asarray(image, float).reshape(height, width, -1)
    turned = [
        affine_transform(plane, turn, offset, output_shape=tuple(shape), order=1, mode="reflect")
        for plane in np.moveaxis(planes, 2, 0)
    ]
    pixels = np.rint(np.stack(turned, axis=2)).clip(0, 255).astype(np.uint8)
    return Image.fromarray(pixels[..., 0] if image.mode == "L" else pixels)


def frames_table(cells: list[dict[str, Any]], column: str) -> str:
    """Mean of a column over seeds: rows are sets and changes, columns frames; the last one names the choice of auto."""
    rows: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    for cell in cells:
        config = cell["config"]
        rows.setdefault((config["dataset"], config["change"]), {}).setdefault(config["frame"], []).append(cell)
    kinds = list(dict.fromkeys(cell["config"]["frame"] for cell in cells))
    lines = []
    for (name, change), found in rows.items():
        means = [f"{np.mean([cell[column] for cell in found[kind]]):.3f}" if kind in found else "" for kind in kinds]
        chosen = {" / ".join(dict.fromkeys(cell["chosen"])) for cell in found.get("auto", [])}
        single = [found[kind] for kind in kinds if kind in found and kind != "auto"]
        nearest = max((np.mean([cell["nearest"] for cell in each]) for each in single), default=0.0)
        lines.append([f"{name}, {change}", *means, f"{nearest:.3f}", ", ".join(sorted(chosen))])
    return markdown_table(["set", *kinds, "1-NN, best frame", "chosen by auto"], lines)


def draw_frames(files: Sequence[str | Path], path: str | Path, *, side: int = 96) -> None:
    """Picture of some images: unchanged, rotated on an enlarged canvas, and placed by each frame."""
    import matplotlib.pyplot as plt

    random = np.random.default_rng(0)
    pairs = [(_opened(Path(file), side), change) for file in files for change in ("in place", "enlarged, black")]
    images = [np.asarray(changed(image, change, random)) for image, change in pairs]
    geometry = SetGeometry.of([np.asarray(image) for image, _ in pairs])
    placements = [Placement(), Placement("picture"), Placement("common", float(geometry.sides.min()), masked=True)]
    placements.append(Placement("content", masked=True))
    figure, axes = plt.subplots(len(images), 1 + len(placements), figsize=(7, 1.4 * len(images)), squeeze=False)
    for row, (image, (_, change)) in enumerate(zip(images, pairs, strict=True)):
        shown = [image, *(placement(image[None], (side, side))[0] for placement in placements)]
        titles = ["file", *(placement.frame for placement in placements)]
        for axis, pixels, title in zip(axes[row], shown, titles, strict=True):
            axis.imshow(pixels, cmap="gray", vmin=0, vmax=255)
            axis.set_xticks([])
            axis.set_yticks([])
            axis.set_title(title if row == 0 else "", fontsize=9)
        axes[row, 0].set_ylabel(change, fontsize=7)
    figure.tight_layout()
    save(figure, Path(path))
