"""
Any finite group
================

Signals on the 24 rotations of a cube: two signals are equivalent if a rotation of the cube maps one to the other. The
group may be a named one or given by its Cayley table.
"""

import matplotlib.pyplot as plt
import numpy as np

import bispectral_ot as bot
from bispectral_ot.features import GroupBispectrum
from bispectral_ot.groups import OctahedralGroup

group = OctahedralGroup()
print(f"{len(group.table)} elements, irreps of dimensions {group.dimensions}")

random = np.random.default_rng(0)
signals = random.random((30, 24))
moves = random.integers(24, size=30)
moved = np.array(
    [group.translate(signal, move) for signal, move in zip(signals, moves, strict=True)]
)
moved += random.normal(0, 0.02, moved.shape)

# %%
# Match transformed signals with the originals. With raw values this fails; with bispectra every match is correct.
bispectrum = GroupBispectrum(group).fit(signals)
figure, several = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
for axes, title, transform in zip(
    several, ("raw values", "bispectrum"), (np.asarray, bispectrum.transform), strict=True
):
    cost = bot.Cost(transform(moved), transform(signals), metric="l2")
    plan = bot.Sinkhorn(reg=0.01).solve(cost).rows(0, 30)
    axes.imshow(plan, cmap="Blues")
    axes.set(title=title, xlabel="signal", ylabel="moved signal")
    print(f"{title}: {(plan.argmax(axis=1) == np.arange(30)).mean():.0%} find their original")
