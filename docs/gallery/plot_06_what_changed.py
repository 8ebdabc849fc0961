"""
Did the content change, or only the pose?
=========================================

The pixels of two sets of images differ. Did the content change, or were the images only rotated or shifted? The
symmetry tests repeat a two-sample test and allow for another change each time.
"""

import matplotlib.pyplot as plt
import numpy as np

import bispectral_ot as bot
from bispectral_ot.comparing import symmetry_tests

first, second = bot.split_halves(bot.load("digits"), per_class=15)
rotated_set = bot.Dataset(np.rot90(second.images, axes=(1, 2)), name="second")
other = bot.Dataset(second.images[second.labels < 3], name="other")
first = bot.Dataset(first.images, name="first")

# %%
# All images of one set were rotated by 90 degrees.
rotated = symmetry_tests(first, rotated_set)
print(rotated.sentence)

# %%
# The other set only has the digits 0, 1 and 2.
different = symmetry_tests(first, other)
print(different.sentence)

# %%
# The p-values.
figure, axes = plt.subplots(figsize=(6.5, 2.8), layout="constrained")
names = list(rotated.p_values)
places = np.arange(len(names))
axes.bar(places - 0.2, [rotated.p_values[name] for name in names], 0.4, label="rotated")
axes.bar(places + 0.2, [different.p_values[name] for name in names], 0.4, label="other digits")
axes.axhline(0.05, color="black", lw=1, ls="--")
axes.set_xticks(places, names, rotation=30, ha="right")
axes.set_ylabel("p-value")
axes.legend()
