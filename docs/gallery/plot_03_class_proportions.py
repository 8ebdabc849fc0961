"""
Sets with different class proportions
=====================================

The source has ten times as many nines as zeros; the target has equally many of each. A balanced plan must then match
nines with zeros. The default estimates the class proportions of the source first.
"""

import matplotlib.pyplot as plt
import numpy as np

import bispectral_ot as bot

source, target = bot.split_halves(bot.load("mnist-5k"), per_class=100)
few = np.concatenate([np.flatnonzero(source.labels == c)[: 10 * (c + 1)] for c in range(10)])
source = bot.rotate_randomly(source.select(few))

match = bot.match(source, target)
proportions = match.class_proportions()
print(match.settings["marginals"])

# %%
# Estimated proportions with 90 % intervals, and the true ones. The labels of the source are not used.
true = source.class_counts / len(source)
places = np.arange(10)
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
axes.bar(places, true, color="lightgray", label="true")
error = np.clip(
    [proportions.source - proportions.low, proportions.high - proportions.source], 0, None
)
axes.errorbar(places, proportions.source, error, fmt="o", capsize=3, label="estimated")
axes.plot(places, proportions.target, "k--", lw=1, label="proportion in the target")
axes.set(
    xticks=places,
    xticklabels=proportions.classes,
    xlabel="class",
    ylabel="proportion in the source",
)
axes.legend()

# %%
# Fraction of sources that are matched to their own class, with estimated and with balanced marginals.
balanced = bot.match(source, target.images, marginals="balanced")
names = [np.array(side.classes)[side.labels] for side in (source, target)]
for title, each in (("estimated", match), ("balanced", balanced)):
    print(f"{title:10} {bot.class_preservation(each, *names).accuracy:.1%}")
