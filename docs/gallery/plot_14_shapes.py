"""
Shapes in three dimensions
==========================

Point clouds of solids, turned at random in space. Meshes and clouds from files are read by
``bot.load("folder")``.
"""

import matplotlib.pyplot as plt
import numpy as np

import bispectral_ot as bot
from studies.synthetic_shapes import synthetic_shapes

turned = synthetic_shapes(8, n_points=512, seed=0)
upright = synthetic_shapes(8, n_points=512, turned=False, seed=1)
print(turned)

figure, several = plt.subplots(
    2, 4, figsize=(8, 4), layout="constrained", subplot_kw={"projection": "3d"}
)
for axes, index in zip(several.flat, range(0, 88, 11), strict=True):
    cloud = turned.images[index]
    axes.scatter(*cloud.T, s=1, c=cloud[:, 2], cmap="viridis")
    axes.set_title(turned.classes[turned.labels[index]], fontsize=9)
    axes.set_box_aspect((1, 1, 1))
    axes.set_axis_off()

# %%
# For clouds the symmetry is rotation in space, together with position and scale.
match = bot.match(turned, upright)
print(match.settings["symmetry"])
print(f"keep their class: {bot.class_preservation(match).accuracy:.1%}")

# %%
axes = match.plot("classes")

# %%
# Left and right helices are mirror images of each other, and do not fit each other by any rotation.
labels = match.labels().label.to_numpy()
for name in turned.classes:
    if "helix" in name:
        mine = np.array(turned.classes)[turned.labels] == name
        print(f"{name}: {(labels[mine] == name).mean():.0%} right")
