"""
Signals on the sphere
=====================

Panoramas, planets and sky maps are images on a latitude-longitude grid that may be rotated in three dimensions.
"""

import matplotlib.pyplot as plt
import numpy as np

import bispectral_ot as bot
from studies.spherical import project_to_sphere

source, target = bot.split_halves(bot.load("mnist-5k"), per_class=30)
rotated = project_to_sphere(source.images, seed=0)  # each digit at a random place and angle
upright = project_to_sphere(target.images)  # around the north pole

figure, several = plt.subplots(2, 3, figsize=(8, 2.9), layout="constrained")
for row, title, images in zip(
    several, ("rotated", "at the pole"), (rotated, upright), strict=True
):
    for axes, index in zip(row, (0, 95, 215), strict=True):
        axes.imshow(images[index], cmap="gray", extent=(0, 360, 180, 0))
        axes.set(xticks=(0, 180, 360), yticks=(0, 90, 180))
    row[0].set_ylabel(title)

# %%
# Rows are colatitudes, columns longitudes. Without the symmetry, images at different places do not match, and a warning
# reports the difference.
labels = source.labels, target.labels
for symmetry in ("none", "so3"):
    match = bot.match(rotated, upright, symmetry=symmetry)
    print(
        f"{symmetry:5} matched to their own class: {bot.class_preservation(match, *labels).accuracy:.1%}"
    )

# %%
# Two digits, each at three places: the features of each digit agree.
from bispectral_ot.features import SphereBispectrum

bispectrum = SphereBispectrum(lmax=10).fit(upright)
figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
for index, colour in ((0, "C0"), (95, "C1")):
    copies = np.repeat(source.images[index : index + 1], 3, axis=0)
    features = bispectrum.transform(project_to_sphere(copies, seed=1))
    axes.plot(features[:, :40].T, color=colour, lw=1, alpha=0.6)
    axes.plot(
        [], color=colour, label=f"a {source.classes[source.labels[index]]}, at three places"
    )
axes.legend()
axes.set(xlabel="column", ylabel="SO(3) bispectrum")
