"""
Colour images of cells
======================

Synthetic micrographs of cells. A cell has no upright pose, may be mirrored, and is not exactly centred. Two of the four
classes differ only in the colour of their granules.
"""

import matplotlib.pyplot as plt
import numpy as np

import bispectral_ot as bot

KINDS = ("one nucleus", "two nuclei", "red granules", "blue granules")
PINK, PURPLE = (
    np.array([0.08, 0.40, 0.20]),
    np.array([0.45, 0.55, 0.15]),
)  # light absorbed by a stain
RED, BLUE = np.array([0.00, 0.35, 0.46]), np.array([0.60, 0.20, 0.00])
y, x = np.mgrid[-1:1:48j, -1:1:48j]


def spot(centre, radius):
    """How much of a pixel lies in a disk."""
    return 1 / (1 + np.exp(24 * (np.hypot(y - centre[0], x - centre[1]) - radius)))[..., None]


def cell(kind, random):
    """One cell, (48, 48, 3)."""
    middle, angle = random.uniform(-0.2, 0.2, 2), random.uniform(0, 2 * np.pi)
    side = np.array([np.sin(angle), np.cos(angle)])
    image = np.array([0.95, 0.93, 0.94]) - PINK * spot(middle, random.uniform(0.6, 0.7))
    image = image - PURPLE * spot(middle + 0.3 * side, 0.2)
    if kind == "two nuclei":
        image = image - PURPLE * spot(middle - 0.3 * side, 0.2)
    elif kind != "one nucleus":
        stain = RED if kind == "red granules" else BLUE
        for _ in range(8):
            place = middle - 0.28 * side + random.normal(0, 0.13, 2)
            image = image - stain * spot(place, 0.05)
    return image + random.normal(0, 0.03, image.shape)


def cells(per_class, seed):
    """A dataset of all kinds."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(4), per_class)
    images = np.array([cell(KINDS[label], random) for label in labels])
    return bot.Dataset(np.float32(images.clip(0, 1)), labels, classes=KINDS)


source, target = cells(40, seed=0), cells(40, seed=1)
figure, several = plt.subplots(4, 8, figsize=(7, 3.8), layout="constrained")
for axes, image in zip(several.flat, source.images[::5], strict=True):
    axes.imshow(image)
    axes.set_axis_off()

# %%
# Colour is used without an option; reflections and translations need one. For comparison, grey images and pixels:
match = bot.match(source, target, symmetry="rotation-reflection-translation")
grey = [bot.Dataset(side.images.mean(axis=-1), side.labels) for side in (source, target)]
for name, each in {
    "colour": match,
    "grey": bot.match(*grey, symmetry="rotation-reflection-translation"),
    "pixels": bot.match(source, target, symmetry="none"),
}.items():
    print(f"{name:7} {bot.class_preservation(each).accuracy:.1%} matched to their own class")

# %%
# Sources with their best targets.
axes = match.plot(n=4, k=5)
