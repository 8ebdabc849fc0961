"""
PyTorch: angles and shifts by gradient
======================================

Each image of a batch has an angle and a shift, which are learned by minimizing the Sinkhorn divergence between the
batch and a reference set. Images are not paired: the sets are compared as a whole. Needs the extra ``torch``.
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
# Digits of one class, rotated by up to 40 degrees and shifted by up to 3 pixels.


def moved(images, angles, shifts):
    """Images rotated counter-clockwise by angles (radians) and shifted by fractions of half a side."""
    cosine, sine = angles.cos(), angles.sin()
    first = torch.stack([cosine, -sine, shifts[:, 0]], 1)
    second = torch.stack([sine, cosine, shifts[:, 1]], 1)
    grid = torch.nn.functional.affine_grid(
        torch.stack([first, second], 1),
        (len(images), 1, *images.shape[1:]),
        align_corners=False,
    )
    return torch.nn.functional.grid_sample(images[:, None], grid, align_corners=False)[:, 0]


if torch:
    from bispectral_ot.torch import sinkhorn_divergence

    torch.manual_seed(0)
    digits = bot.load("mnist-5k")
    sevens = torch.tensor(np.asarray(digits.images)[digits.labels == 7][:64] / 255).float()
    reference, images = sevens[:32], sevens[32:]
    true_angles = torch.deg2rad(80 * torch.rand(32) - 40)
    true_shifts = 0.4 * torch.rand(32, 2) - 0.2
    batch = moved(images, true_angles, true_shifts)

# %%
# The loss compares blurred pixels of the moved batch with those of the reference. The remaining error is mostly the
# slant of the handwriting, which the reference does not determine.
if torch:
    blur = torch.nn.AvgPool2d(3, stride=2)

    def rows(stack):
        return blur(stack[:, None]).flatten(1)

    angles, shifts = torch.zeros(32, requires_grad=True), torch.zeros(32, 2, requires_grad=True)
    optimizer = torch.optim.Adam([angles, shifts], lr=0.03)
    losses = []
    for _ in range(120):
        optimizer.zero_grad()
        loss = sinkhorn_divergence(rows(moved(batch, angles, shifts)), rows(reference))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    left = torch.rad2deg(angles.detach() + true_angles)
    print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f}")
    before, after = torch.rad2deg(true_angles).abs().mean(), (left - left.median()).abs().mean()
    print(f"mean error of the angles: {before:.0f} degrees before, {after:.0f} after")

# %%
if torch:
    figure, several = plt.subplots(3, 10, figsize=(8, 2.6), layout="constrained")
    after = moved(batch, angles, shifts).detach()
    for axes_row, name, stack in zip(
        several, ("input", "learned", "upright"), (batch, after, images)
    ):
        for axes, image in zip(axes_row, stack):
            axes.imshow(image, cmap="gray")
            axes.set(xticks=[], yticks=[])
        axes_row[0].set_ylabel(name, rotation=0, ha="right", va="center")
