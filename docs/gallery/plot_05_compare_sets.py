"""
Compare five sets and test for drift
====================================

Four batches of digits come from one population. The fifth has drifted: a class is missing and noise was added.
``compare`` gives a distance for each pair, the distance expected from sampling alone, and a permutation test.
"""

import numpy as np

import bispectral_ot as bot

digits = bot.load("digits")
batches = np.random.default_rng(0).permutation(len(digits))[:500].reshape(5, 100)
days = ["monday", "tuesday", "wednesday", "thursday", "friday"]
week = {
    day: bot.rotate_randomly(digits.select(rows), seed=k)
    for k, (day, rows) in enumerate(zip(days, batches))
}

friday = digits.select(batches[-1])
friday = friday.select(friday.labels != 1).images
week["friday"] = friday + 3 * np.random.default_rng(1).standard_normal(friday.shape)

comparison = bot.compare(week, permutations=99)
print(comparison)

# %%
# The distance is 0 between a set and itself, but not between two samples of one population: ``reference`` is the
# average distance between such samples.
axes = comparison.plot()

# %%
# Ten pairs are tested, so a p-value near 0.05 may be due to chance. With 99 permutations the smallest p-value is 0.01.
for pair in comparison.pairs:
    if pair.p_value is not None and pair.p_value <= 0.01:
        print(
            f"{pair.source} and {pair.target}: {pair.ratio:.1f} x the reference, p = {pair.p_value}"
        )
