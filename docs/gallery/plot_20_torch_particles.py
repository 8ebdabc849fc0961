"""
PyTorch: images that flow to a set
==================================

The pixels of a batch of images are optimized until the batch matches a set of digits. The invariant loss ignores the
rotation of the digits; transport between pixels does not. This example needs the extra ``torch``.
"""

import matplotlib.pyplot as plt
import numpy as np

import bispectral_ot as bot

try:
    import torch
except ModuleNotFoundError:
    torch = None
    print("PyTorch is not installed; this example was not run.")

# %%
# The targets are fours at random angles. The particles start as upright fours with noise.


def flow(loss, start, target, steps=60):
    particles = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([particles], lr=0.03)
    values = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(particles.clamp(0, 1), target)
        value.backward()
        optimizer.step()
        values.append(value.item())
    return particles.detach().clamp(0, 1), values


if torch:
    from bispectral_ot.torch import BispectralLoss, sinkhorn_divergence

    torch.manual_seed(0)
    digits = bot.load("mnist-5k")
    fours = np.asarray(digits.images)[digits.labels == 4][:48] / 255
    rotated = bot.rotate_randomly(bot.Dataset(fours[:24]), seed=0).images
    target = torch.tensor(rotated, dtype=torch.float32)
    start = torch.tensor(fours[24:], dtype=torch.float32)
    start = (start + 0.35 * torch.randn_like(start)).clamp(0, 1)

    invariant = BispectralLoss().fit(target)
    results = {
        "invariant": flow(invariant, start, target),
        "pixels": flow(
            lambda x, y: sinkhorn_divergence(x.flatten(1), y.flatten(1)), start, target
        ),
    }

# %%
# With pixels, the particles become the rotated fours of the target. With the invariant loss, they stay upright and only
# the noise disappears.
if torch:
    figure, several = plt.subplots(4, 10, figsize=(8, 3.4), layout="constrained")
    rows = {"target": target, "start": start} | {
        name: images for name, (images, _) in results.items()
    }
    for axes_row, (name, images) in zip(several, rows.items()):
        for axes, image in zip(axes_row, images):
            axes.imshow(image, cmap="gray", vmin=0, vmax=1)
            axes.set(xticks=[], yticks=[])
        axes_row[0].set_ylabel(name, rotation=0, ha="right", va="center")
    for name, (images, values) in results.items():
        upright = float(((images - torch.tensor(fours[24:])) ** 2).mean())
        print(
            f"{name:9} loss {values[0]:.3f} -> {values[-1]:.3f}, distance to the clean start {upright:.3f}"
        )
