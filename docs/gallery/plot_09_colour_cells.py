"""
Colour images of cells
======================

Synthetic cells as a microscope shows them: round ones, long ones, dividing ones and ones with a large nucleus,
in two stains, turned and a little off centre. A cell has no upright position, and its mirror image is the same
cell.
"""

import matplotlib.pyplot as plt
import numpy as np

import bispectral_ot as bot

KINDS = {
    "round": (1.0, 0.35, 0.0),
    "long": (1.9, 0.35, 0.0),
    "dividing": (1.6, 0.25, 0.55),
    "large nucleus": (1.1, 0.75, 0.0),
}
y, x = np.mgrid[-1:1:48j, -1:1:48j]


def cell(kind, random):
    """One cell, (48, 48, 3): pink body, dark blue nuclei, on a light background."""
    stretch, nucleus, apart = KINDS[kind]
    angle, size = random.uniform(0, 2 * np.pi), random.uniform(0.36, 0.46)
    u = (np.cos(angle) * x + np.sin(angle) * y - random.normal(0, 0.05)) / (size * np.sqrt(stretch))
    v = (np.cos(angle) * y - np.sin(angle) * x - random.normal(0, 0.05)) / (size / np.sqrt(stretch))
    body = 1 / (1 + np.exp(12 * (np.hypot(u, v) - 1)))
    core = sum(
        1 / (1 + np.exp(20 * (np.hypot(u - side * apart, v) - nucleus * random.uniform(0.9, 1.1)))) for side in (-1, 1)
    )
    image = np.array([0.95, 0.92, 0.93]) - body[..., None] * [0.08, 0.40, 0.20] - core[..., None] * [0.25, 0.15, 0.05]
    return (image + random.normal(0, 0.02, image.shape)).clip(0, 1).astype(np.float32)


def cells(per_class, seed):
    """A dataset of all kinds."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(KINDS)), per_class)
    return bot.Dataset([cell(list(KINDS)[label], random) for label in labels], labels, classes=list(KINDS))


source, target = cells(40, seed=0), cells(40, seed=1)
figure, several = plt.subplots(4, 8, figsize=(7, 3.8), layout="constrained")
for axes, image in zip(several.flat, source.images[::5], strict=True):
    axes.imshow(image)
    axes.set_axis_off()

# %%
# Colours need no option. Mirror images and shifts do.
match = bot.match(source, target, symmetry="rotation-reflection-translation")
print(f"keep their kind: {bot.class_preservation(match).accuracy:.1%}")
pixels = bot.match(source, target, symmetry="none")
print(f"by pixels:       {bot.class_preservation(pixels).accuracy:.1%}")

# %%
# Sources with their best targets.
axes = match.plot(n=4, k=5)
