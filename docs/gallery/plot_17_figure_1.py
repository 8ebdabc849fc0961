"""
Figure 1 of the paper: distances between rotated copies
=======================================================

Six digits, each rotated by many angles, are mapped to the plane by their distances. With pixels, the copies of a digit
are scattered; with bispectra, they nearly coincide.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import pdist, squareform

import bispectral_ot as bot
from bispectral_ot.datasets import rotate
from bispectral_ot.features import Pixels
from bispectral_ot.report.page_data import scale_to_plane

digits = bot.load("mnist-5k")
chosen = digits.select([np.flatnonzero(digits.labels == c)[3] for c in range(6)])
angles = np.arange(0, 360, 18)
rotated = np.concatenate(
    [rotate(chosen.images[k : k + 1].repeat(len(angles), 0), angles).images for k in range(6)]
)
labels = np.repeat(np.arange(6), len(angles))

# %%
# Multidimensional scaling of the distances. Each point is an image, each colour a digit.
figure, several = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
for axes, title, features in zip(
    several,
    ("pixels", "ring bispectra (the paper's)", "global bispectra"),
    (Pixels(), bot.RingBispectrum(), bot.GlobalBispectrum()),
    strict=True,
):
    rows = features.fit_transform(rotated)
    rows = rows * np.sqrt(getattr(features, "feature_weights_", 1.0))
    distances = squareform(pdist(rows))
    plane, _ = scale_to_plane(distances)
    axes.scatter(*plane.T, c=labels, cmap="tab10", vmax=9, s=12)
    axes.set(title=title, xticks=[], yticks=[], aspect="equal")
    same = labels[:, None] == labels
    ratio = distances[same & (distances > 0)].mean() / distances[~same].mean()
    print(
        f"{title}: distance between copies of a digit: {ratio:.2f} of the distance to other digits"
    )
