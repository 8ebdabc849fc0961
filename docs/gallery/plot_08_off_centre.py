"""
Content that is not centred
===========================

Rotation is about the centre of an image. Where the content lies elsewhere, use
``symmetry="rotation-translation"``: images that show something on a background are centred first.
"""

import matplotlib.pyplot as plt
import numpy as np

import bispectral_ot as bot

source, target = bot.split_halves(bot.load("mnist-5k"), per_class=40)
source = bot.rotate_randomly(source)


def scatter(dataset, seed):
    """Place every image somewhere on a canvas of 44 x 44 pixels."""
    random = np.random.default_rng(seed)
    canvas = np.zeros((len(dataset), 44, 44), dtype=np.float32)
    for empty, image, (top, left) in zip(
        canvas, dataset.images, random.integers(0, 17, (len(dataset), 2)), strict=True
    ):
        empty[top : top + 28, left : left + 28] = image
    return bot.Dataset(canvas, dataset.labels, classes=dataset.classes)


source, target = scatter(source, 1), scatter(target, 2)
matches = {symmetry: bot.match(source, target, symmetry=symmetry) for symmetry in ("rotation", "rotation-translation")}
for symmetry, match in matches.items():
    print(f"{symmetry:20} keep their class: {bot.class_preservation(match).accuracy:.1%}")

# %%
# Sources on the left, and their best targets up to turns and shifts.
axes = matches["rotation-translation"].plot(n=5, k=5)

# %%
# Where each class went, without and with translations.
figure, several = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
for axes, (symmetry, match) in zip(several, matches.items(), strict=True):
    match.plot("classes", ax=axes)
    axes.set_title(symmetry)
