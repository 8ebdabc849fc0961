"""
Changed, or merely turned?
==========================

Two sets differ pixel by pixel. Did their content change, or were the images only moved? The symmetry tests
allow for one change after the other.
"""

import matplotlib.pyplot as plt
import numpy as np

import bispectral_ot as bot
from bispectral_ot.comparing import symmetry_tests

first, second = bot.split_halves(bot.load("digits"), per_class=15)
turned_set = bot.Dataset(np.rot90(second.images, axes=(1, 2)), name="second")
other = bot.Dataset(second.images[second.labels < 3], name="other")
first = bot.Dataset(first.images, name="first")

# %%
# All images of the one set were turned by 90 degrees.
turned = symmetry_tests(first, turned_set)
print(turned.sentence)

# %%
# The other set has the digits 0, 1 and 2 only.
different = symmetry_tests(first, other)
print(different.sentence)

# %%
# The p-values behind these sentences.
figure, axes = plt.subplots(figsize=(6.5, 2.8), layout="constrained")
names = list(turned.p_values)
places = np.arange(len(names))
axes.bar(places - 0.2, [turned.p_values[name] for name in names], 0.4, label="turned")
axes.bar(places + 0.2, [different.p_values[name] for name in names], 0.4, label="other digits")
axes.axhline(0.05, color="black", lw=1, ls="--")
axes.set_xticks(places, names, rotation=30, ha="right")
axes.set_ylabel("p-value")
axes.legend()
