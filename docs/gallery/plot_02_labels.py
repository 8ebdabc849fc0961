"""
Which labels should I check?
============================

Every label comes with a calibrated probability. Check the least probable ones by hand.
"""

import matplotlib.pyplot as plt
import numpy as np

import bispectral_ot as bot

source, target = bot.split_halves(bot.load("mnist-5k"), per_class=60)
source = bot.rotate_randomly(source)
match = bot.match(source, target)

# %%
# If only the most probable labels are kept, a larger fraction of them is correct.
labels = match.labels()
right = labels.label.to_numpy() == np.array(source.classes)[source.labels]
order = np.argsort(-labels.probability.to_numpy())
kept = np.arange(1, len(order) + 1) / len(order)
accuracy = np.cumsum(right[order]) / np.arange(1, len(order) + 1)

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.plot(kept[20:], accuracy[20:])
axes.set(
    xlabel="fraction of the sources that are labelled, most probable first",
    ylabel="fraction of correct labels",
)
axes.grid(alpha=0.3)

# %%
# The mean probability is the expected accuracy. ``to_check`` returns the labels to check by hand to reach an accuracy
# of 99 %, least probable first.
print(f"expected {match.expected_accuracy()}, true {right.mean():.1%}")
check = match.to_check(0.99)
print(
    f"{len(check)} of {len(source)} labels to check, of which {(~right[check]).mean():.0%} are wrong"
)

# %%
# The least certain labels, with the runner-up.
figure, several = plt.subplots(1, 8, figsize=(8, 1.6), layout="constrained")
for axes, index in zip(several, check, strict=False):
    axes.imshow(source.images[index], cmap="gray")
    axes.set_title(f"{labels.label[index]} or {labels.runner_up[index]}?", fontsize=8)
    axes.set_axis_off()
