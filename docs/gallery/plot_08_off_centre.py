"""
Content that is not centred
===========================

Rotation is about the centre of an image. Where the content lies elsewhere, use
``symmetry="rotation-translation"``: images that show something on a background are centred first.
"""

import matplotlib.pyplot as plt
import numpy as np

import bispectral_ot as bot

# %%
# Constellations of five stars each, turned at random, somewhere in the image, in noise. All are made of the same
# stars, so that only the arrangement tells the ten kinds apart.
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
# With everything in the middle, rotation is enough. With shifts, what is left of it is the part of the features that
# sees what an image is made of, and not where.
sides = {"centred": (constellations(0, 0), constellations(0, 1)), "shifted": (source, target)}
for symmetry in ("none", "rotation", "rotation-translation"):
    for name, both in sides.items():
        match = bot.match(*both, symmetry=symmetry)
        right = bot.class_preservation(match).accuracy
        print(f"{symmetry:20} {name}: {right:.1%} keep their kind")

# %%
# Sources on the left, and their best targets up to turns and shifts.
axes = match.plot(n=5, k=5)
