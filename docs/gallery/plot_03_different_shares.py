"""
Sets that have their classes in different shares
================================================

The source has ten times as many nines as zeros, the target as many of each. A balanced plan has to send nines
to zeros; the default estimates the shares first, and holds those.
"""

import matplotlib.pyplot as plt
import numpy as np

import bispectral_ot as bot

source, target = bot.split_halves(bot.load("mnist-5k"), per_class=100)
few = np.concatenate([np.flatnonzero(source.labels == c)[: 10 * (c + 1)] for c in range(10)])
source = bot.rotate_randomly(source.select(few))

match = bot.match(source, target)
shares = match.class_proportions()
print(match.settings["marginals"])

# %%
# What was estimated, with its 90 % intervals, next to what is true. The method never sees the labels of the
# source.
true = source.class_counts / len(source)
places = np.arange(10)
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
axes.bar(places, true, color="lightgray", label="true")
error = np.clip([shares.source - shares.low, shares.high - shares.source], 0, None)
axes.errorbar(places, shares.source, error, fmt="o", capsize=3, label="estimated")
axes.plot(places, shares.target, "k--", lw=1, label="share in the target")
axes.set(
    xticks=places, xticklabels=shares.classes, xlabel="class", ylabel="share of the source"
)
axes.legend()

# %%
# How many sources get their own class, with the estimate and with a plan that holds the shares of the target.
balanced = bot.match(source, target.images, marginals="balanced")
names = [np.array(side.classes)[side.labels] for side in (source, target)]
for title, each in (("estimated", match), ("balanced", balanced)):
    print(f"{title:10} {bot.class_preservation(each, *names).accuracy:.1%}")
