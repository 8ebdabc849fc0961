"""
Content that is not centred
===========================

``symmetry="rotation"`` ignores rotations about the centre of the image. If the content is elsewhere, use
``symmetry="rotation-translation"``: content on a background is centred first.
"""

import matplotlib.pyplot as plt
import numpy as np

import bispectral_ot as bot

# %%
# Constellations of five equal stars at random angles and positions, with noise. The ten classes differ only in the
# arrangement of the stars.
KINDS = np.random.default_rng(8).uniform(-14, 14, (10, 5, 2))
pixels = np.stack(np.mgrid[:56, :56], axis=-1)


def constellation(stars, shift, random):
    """One image, (56, 56), its centre moved by up to ``shift`` pixels both ways."""
    angle = random.uniform(0, 2 * np.pi)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    places = (stars - stars.mean(axis=0)) @ turn + 27.5 + random.uniform(-shift, shift, 2)
    places += random.normal(0, 1, places.shape)
    light = np.exp(-((pixels[:, :, None] - places) ** 2).sum(axis=-1) / 4.5).sum(axis=-1)
    return light + random.normal(0, 0.03, light.shape)


def constellations(shift, seed):
    """Fifteen images of each kind."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(KINDS)), 15)
    images = [constellation(KINDS[label], shift, random) for label in labels]
    return bot.Dataset(np.float32(images), labels)


source, target = constellations(13, seed=0), constellations(13, seed=1)
figure, several = plt.subplots(2, 10, figsize=(9, 2), layout="constrained")
for axes, index in zip(several.T.flat, range(0, 150, 7)):
    axes.imshow(source.images[index], cmap="gray")
    axes.set_axis_off()

# %%
# For centred images, rotation is enough. For shifted images it is less accurate: only the local features, which do not
# depend on position, are the same.
sides = {"centred": (constellations(0, 0), constellations(0, 1)), "shifted": (source, target)}
for symmetry in ("none", "rotation", "rotation-translation"):
    for name, both in sides.items():
        match = bot.match(*both, symmetry=symmetry)
        right = bot.class_preservation(match).accuracy
        print(f"{symmetry:20} {name}: {right:.1%} matched to their own class")

# %%
# Sources on the left, and their best targets up to rotation and translation.
axes = match.plot(n=5, k=5)
