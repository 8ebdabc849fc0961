"""
3-D shapes
==========

Point clouds of solids, rotated at random in space. ``bot.load("folder")`` reads meshes and clouds from files.
"""

import matplotlib.pyplot as plt
import numpy as np

import bispectral_ot as bot
from studies.synthetic_shapes import synthetic_shapes

rotated = synthetic_shapes(8, n_points=512, seed=0)
upright = synthetic_shapes(8, n_points=512, turned=False, seed=1)
print(rotated)

figure, several = plt.subplots(
    2, 4, figsize=(8, 4), layout="constrained", subplot_kw={"projection": "3d"}
)
for axes, index in zip(several.flat, range(0, 88, 11), strict=True):
    cloud = rotated.images[index]
    axes.scatter(*cloud.T, s=1, c=cloud[:, 2], cmap="viridis")
    axes.set_title(rotated.classes[rotated.labels[index]], fontsize=9)
    axes.set_box_aspect((1, 1, 1))
    axes.set_axis_off()

# %%
# The default symmetry of clouds ignores rotation, position and scale.
match = bot.match(rotated, upright)
print(match.settings["symmetry"])
print(f"matched to their own class: {bot.class_preservation(match).accuracy:.1%}")

# %%
axes = match.plot("classes")

# %%
# Left and right helices are mirror images of each other. No rotation maps one to the other.
labels = match.labels().label.to_numpy()
for name in rotated.classes:
    if "helix" in name:
        mine = np.array(rotated.classes)[rotated.labels] == name
        print(f"{name}: {(labels[mine] == name).mean():.0%} correct")
