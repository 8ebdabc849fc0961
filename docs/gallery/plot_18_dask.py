"""
A Dask cluster on this machine
==============================

``client=`` takes a ``distributed.Client``. Here the workers are threads of this process; a remote scheduler works the
same way. The result is that of a match without a cluster.
"""

import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster

import bispectral_ot as bot

source, target = bot.split_halves(bot.load("digits"), per_class=40)
source = bot.rotate_randomly(source)

options = {
    "n_workers": 2,
    "threads_per_worker": 1,
    "processes": False,
    "dashboard_address": None,
}
with LocalCluster(**options) as cluster, Client(cluster) as client:
    far = bot.match(source, target, client=client)
    far_weights = far.top_matches(1).weights[:, 0]
    far_labels = far.labels().label
    print(far)

here = bot.match(source, target)
labels, weights = here.labels().label, here.top_matches(1).weights[:, 0]
print(f"labels that are the same: {(labels == far_labels).mean():.0%}")
print(f"largest difference of a weight: {abs(weights - far_weights).max():.1e}")

# %%
figure, axes = plt.subplots(figsize=(3.4, 3.2), layout="constrained")
axes.scatter(weights, far_weights, s=6)
axes.plot([0, 1], [0, 1], "k--", lw=1)
axes.set(
    xlabel="largest weight, this process",
    ylabel="largest weight, cluster",
    xticks=np.linspace(0, 1, 3),
)
