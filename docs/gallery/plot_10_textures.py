"""
Textures
========

Grain, stripes, dots and ridges have no centre and no upright pose. The default features give little weight to the
global part and most weight to the local part.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter, rotate

import bispectral_ot as bot

KINDS = ("fine grain", "coarse grain", "stripes", "dots", "ridges")


def texture(kind, random):
    """A patch of 48 x 48 pixels, cut out of a larger field at a random angle."""
    noise = random.standard_normal((80, 80))
    if kind == "fine grain":
        field = gaussian_filter(noise, 1.0)
    elif kind == "coarse grain":
        field = gaussian_filter(noise, 2.5)
    elif kind == "stripes":
        field = gaussian_filter(noise, (1.0, 8.0))
    elif kind == "dots":
        field = gaussian_filter((random.random((80, 80)) > 0.97).astype(float), 1.5)
    else:
        field = -abs(gaussian_filter(noise, 2.5))
    patch = rotate(field, random.uniform(0, 360), reshape=False, order=1)[16:64, 16:64]
    return (patch - patch.mean()) / patch.std()


def textures(per_class, seed):
    """A dataset of all kinds."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(KINDS)), per_class)
    return bot.Dataset(
        [texture(KINDS[label], random) for label in labels], labels, classes=KINDS
    )


source, target = textures(40, seed=0), textures(40, seed=1)
figure, several = plt.subplots(2, 5, figsize=(7, 3), layout="constrained")
for column, kind in zip(several.T, range(5), strict=True):
    for axes, image in zip(column, source.images[source.labels == kind], strict=False):
        axes.imshow(image, cmap="gray")
        axes.set_axis_off()
    column[0].set_title(KINDS[kind], fontsize=9)

# %%
# The weight of the global part relative to the local part. Pixels do not suit textures: the warning that labels of the
# target look wrong is a false alarm.
match = bot.match(source, target)
print(f"weight of the global part: {match.feature_map.transformer.coupled_weight_:.2f}")
print(f"matched to their own class: {bot.class_preservation(match).accuracy:.1%}")
pixels = bot.match(source, target, symmetry="none")
print(f"by pixels:                  {bot.class_preservation(pixels).accuracy:.1%}")

# %%
axes = match.plot("classes")
