"""
Rotate images upright
=====================

``poses`` estimates the rotation of each source relative to its targets. The targets must be upright.
"""

import matplotlib.pyplot as plt
import numpy as np

import bispectral_ot as bot
from bispectral_ot.datasets import rotate

source, target = bot.split_halves(bot.load("mnist-5k"), per_class=60)
angles = np.random.default_rng(0).uniform(-180, 180, len(source))
rotated = rotate(source, angles)
match = bot.match(rotated, target)
poses = match.poses()
upright = match.upright(poses=poses, include_ambiguous=True)

figure, several = plt.subplots(2, 10, figsize=(9, 2.1), layout="constrained")
for column, index in zip(several.T, range(0, 600, 60), strict=True):
    for axes, image in zip(column, (rotated.images[index], upright[index]), strict=True):
        axes.imshow(image, cmap="gray")
        axes.set_axis_off()

# %%
# Errors of the angles. A pose is *ambiguous* if another angle is nearly as likely; ``upright`` leaves such images
# unchanged unless ``include_ambiguous=True``.
errors = abs((poses.angles + angles + 180) % 360 - 180)
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.hist(
    [errors[~poses.ambiguous], errors[poses.ambiguous]],
    np.arange(0, 181, 10),
    stacked=True,
    label=["clear", "ambiguous"],
)
axes.set(xlabel="error of the angle (degrees)", ylabel="images")
axes.legend()
clear = errors[~poses.ambiguous]
print(
    f"{len(clear)} of {len(errors)} poses are clear; {(clear < 15).mean():.0%} of these are within 15 degrees"
)
