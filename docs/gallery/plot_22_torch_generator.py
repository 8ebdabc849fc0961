"""
PyTorch: a generator for rotated digits
=======================================

A small network learns to generate digits from examples at random angles. With the invariant loss, it does not have to
learn all angles. ``compare`` evaluates the result. This example needs the extra ``torch``.
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
# Examples are zeros, ones and fours at random angles. The network maps eight random numbers to an image.
if torch:
    from bispectral_ot.torch import BispectralLoss

    torch.manual_seed(0)
    digits = bot.load("mnist-5k")
    chosen = np.isin(digits.labels, (0, 1, 4))
    examples = bot.rotate_randomly(bot.Dataset(np.asarray(digits.images)[chosen] / 255), seed=0)
    images = torch.tensor(examples.images).float()

    generator = torch.nn.Sequential(
        torch.nn.Linear(8, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 14 * 14),
        torch.nn.Sigmoid(),
        torch.nn.Unflatten(1, (1, 14, 14)),
        torch.nn.Upsample(scale_factor=2, mode="bilinear"),
        torch.nn.Flatten(1, 2),
    )
    torch.nn.init.constant_(generator[4].bias, -3.0)  # a dark background

    def draw(n):
        stack = generator(torch.randn(n, 8))
        return stack / stack.amax((1, 2), keepdim=True)  # invariants ignore contrast

    before = draw(100).detach()

    loss = BispectralLoss(tol=1e-3).fit(images[:200])
    optimizer = torch.optim.Adam(generator.parameters(), lr=4e-3)
    losses = []
    for _ in range(250):
        optimizer.zero_grad()
        batch = images[torch.randperm(len(images))[:48]]
        drawn = draw(48)
        value = loss(drawn, batch)
        (value + 0.3 * drawn.mean()).backward()  # a dark background
        optimizer.step()
        losses.append(value.item())
    print(f"loss {np.mean(losses[:5]):.2f} -> {np.mean(losses[-5:]):.2f}")

# %%
if torch:
    drawn = draw(100).detach()
    figure, several = plt.subplots(2, 10, figsize=(8, 1.9), layout="constrained")
    for axes_row, name, stack in zip(several, ("examples", "drawn"), (images, drawn)):
        for axes, image in zip(axes_row, stack):
            axes.imshow(image, cmap="gray", vmin=0, vmax=1)
            axes.set(xticks=[], yticks=[])
        axes_row[0].set_ylabel(name, rotation=0, ha="right", va="center")

# %%
# The network is small and was trained for few steps: most images look like ones; zeros and fours are poor. These are
# the distances of the generated images to the examples, up to rotation, before and after training. The distance between
# two halves of the examples is the best value that a generator can reach.
if torch:
    sets = {
        "untrained": before,
        "trained": drawn,
        "half": images[:100],
        "other half": images[100:200],
    }
    comparison = bot.compare(sets, symmetry="rotation", permutations=0)
    for name in ("untrained", "trained", "other half"):
        place = list(sets).index(name)
        print(f"{name:10} {comparison.distances[place, 2]:.3f}")
