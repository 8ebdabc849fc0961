"""
Match two folders
=================

One folder has a sub-folder per class. The other has no labels, and its images are rotated at random. The match labels
the images of the second folder.
"""

# %%
# Create the folders: small digits from scikit-learn, written as PNG files.
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import bispectral_ot as bot

photos, catalogue = bot.split_halves(bot.load("digits"), per_class=25)
angles = np.random.default_rng(0).uniform(0, 360, len(photos))
folder = Path(tempfile.mkdtemp())


def write(image, path, angle=0):
    """Write an image, enlarged to 32 x 32 pixels and rotated."""
    path.parent.mkdir(parents=True, exist_ok=True)
    large = Image.fromarray(np.uint8(image * 15)).resize((32, 32))
    large.rotate(angle, Image.Resampling.BICUBIC).save(path)


for number, (image, angle) in enumerate(zip(photos.images, angles, strict=True)):
    write(image, folder / "photos" / f"{number:03d}.png", angle)
for number, (image, label) in enumerate(zip(catalogue.images, catalogue.labels, strict=True)):
    write(image, folder / "catalogue" / catalogue.classes[label] / f"{number:03d}.png")

# %%
# ``match`` accepts folders. On the command line: ``bispectral-ot match photos/ catalogue/ --out runs/first``. A message
# names the frame, that is, how the images are placed before they are compared, unless it is the whole canvas.
match = bot.match(folder / "photos", folder / "catalogue")
print(match)

# %%
# Some photos with their best targets. The number below a target is its *weight*: the fraction of the photo's mass
# that goes to it.
axes = match.plot(n=6, k=5)

# %%
# The label of a photo is its most probable class.
labels = match.labels().label.to_numpy()
print(match.labels().head())
names = np.array(photos.classes)[photos.labels]
print(f"correct: {(labels == names).mean():.0%}")
