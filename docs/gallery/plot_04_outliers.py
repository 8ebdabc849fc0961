"""
Find outliers
=============

The source has classes that the target lacks. ``outliers`` finds images that are farther from the targets than the
targets are from each other.
"""

import matplotlib.pyplot as plt
import numpy as np

import bispectral_ot as bot

source, target = bot.split_halves(bot.load("mnist-5k"), per_class=60)
source = bot.rotate_randomly(source)
target = target.select(np.isin(target.labels, [0, 1, 6, 7, 9]))  # no 2, 3, 4, 5, 8

match = bot.match(source, target)
found = match.outliers(0.05)
missing = ~np.isin(source.labels, [0, 1, 6, 7, 9])
print(f"{len(found.indices)} outliers")
print(f"{missing[found.indices].mean():.0%} of them are 2, 3, 4, 5 or 8")

# %%
# The score of a source is a p-value: the fraction of targets that are at least as far from the other targets. Sources
# of known classes have scores between 0 and 1; sources of new classes have scores near 0.
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
bins = np.linspace(0, 1, 21)
axes.hist(
    [found.scores[~missing], found.scores[missing]],
    bins,
    stacked=True,
    label=["class in the target", "new class"],
)
axes.axvline(0.05, color="black", lw=1)
axes.set(xlabel="score", ylabel="sources")
axes.legend()

# %%
# The images with the lowest scores.
figure, several = plt.subplots(1, 10, figsize=(8, 1.2), layout="constrained")
for axes, index in zip(several, found.indices, strict=False):
    axes.imshow(source.images[index], cmap="gray")
    axes.set_axis_off()
