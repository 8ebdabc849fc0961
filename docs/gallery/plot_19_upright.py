"""
Put images upright
==================

A match says what an image is; the same coefficients say how it is turned. The targets only have to stand
upright.
"""

import matplotlib.pyplot as plt
import numpy as np

import bispectral_ot as bot
from bispectral_ot.datasets import rotate

source, target = bot.split_halves(bot.load("mnist-5k"), per_class=60)
angles = np.random.default_rng(0).uniform(-180, 180, len(source))
turned = rotate(source, angles)
match = bot.match(turned, target)
poses = match.poses()
upright = match.upright(poses=poses, guess=True)

figure, several = plt.subplots(2, 10, figsize=(9, 2.1), layout="constrained")
for column, index in zip(several.T, range(0, 600, 60), strict=True):
    for axes, image in zip(column, (turned.images[index], upright[index]), strict=True):
        axes.imshow(image, cmap="gray")
        axes.set_axis_off()

# %%
# How far off the angles are. A pose is *ambiguous* if another turn may as well be right; ``upright`` leaves
# such images as they are, unless ``guess=True``.
errors = abs((poses.angles + angles + 180) % 360 - 180)
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.hist(
    [errors[~poses.ambiguous], errors[poses.ambiguous]],
    np.arange(0, 181, 10),
    stacked=True,
    label=["sure", "ambiguous"],
)
axes.set(xlabel="error of the angle (degrees)", ylabel="images")
axes.legend()
sure = errors[~poses.ambiguous]
print(
    f"sure of {len(sure)} of {len(errors)}; {(sure < 15).mean():.0%} of these are within 15 degrees"
)
