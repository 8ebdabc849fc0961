"""
Labels, and which of them to doubt
==================================

A transferred label comes with its share of the source's mass. The larger the share, the more often the label is
right: so look at the smallest ones yourself.
"""

import matplotlib.pyplot as plt
import numpy as np

import bispectral_ot as bot

source, target = bot.split_halves(bot.load("mnist-5k"), per_class=60)
source = bot.rotate_randomly(source)
match = bot.match(source, target)

# %%
# Keep only labels with at least a given share: fewer labels, and more of them right.
labels, shares = match.transfer_labels()
right = labels == np.array(source.classes)[source.labels]
order = np.argsort(-shares)
kept = np.arange(1, len(order) + 1) / len(order)
accuracy = np.cumsum(right[order]) / np.arange(1, len(order) + 1)

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.plot(kept[20:], accuracy[20:])
axes.set(
    xlabel="part of the sources that get a label, largest shares first",
    ylabel="labels that are right",
)
axes.grid(alpha=0.3)

# %%
# ``doubtful`` lists the sources whose label has a share below one half, or differs from the label of the
# nearest target.
doubtful = match.doubtful()
print(f"{len(doubtful)} of {len(source)} labels are doubtful")
print(
    f"wrong among the doubtful {(~right[doubtful]).mean():.0%}, among all {(~right).mean():.0%}"
)

# %%
# The least certain ones, with the two classes that compete.
details = match.label_details()
figure, several = plt.subplots(1, 8, figsize=(8, 1.6), layout="constrained")
for axes, index in zip(several, doubtful, strict=False):
    axes.imshow(source.images[index], cmap="gray")
    axes.set_title(f"{details.labels[index]} or {details.runner_up[index]}?", fontsize=8)
    axes.set_axis_off()
