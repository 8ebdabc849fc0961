"""
In a scikit-learn pipeline
==========================

Every invariant is a scikit-learn transformer. A pipeline of an invariant and a classifier ignores rotations, without
rotated images in the training set. Here the principal components are standardized. Do not standardize features for
``match``: they are already weighted.
"""

import matplotlib.pyplot as plt
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bispectral_ot as bot
from bispectral_ot.features import Pixels

train, test = bot.split_halves(bot.load("mnist-5k"), per_class=100)
rotated = bot.rotate_randomly(test)

scores = {}
for name, features in (("pixels", Pixels()), ("global bispectra", bot.GlobalBispectrum())):
    model = make_pipeline(
        features, PCA(60, random_state=0), StandardScaler(), LogisticRegression(max_iter=500)
    )
    model.fit(train.images, train.labels)
    scores[name] = [model.score(each.images, each.labels) for each in (test, rotated)]
    print(f"{name:18} upright {scores[name][0]:.1%}, rotated {scores[name][1]:.1%}")

# %%
figure, axes = plt.subplots(figsize=(5.5, 2.6), layout="constrained")
for place, (_, pair) in enumerate(scores.items()):
    axes.bar([place - 0.2, place + 0.2], pair, 0.4, color=["lightgray", "C0"])
axes.set(xticks=[0, 1], xticklabels=list(scores), ylabel="accuracy", ylim=(0, 1))
figure.legend(axes.containers[0].patches, ["upright", "rotated"], loc="outside right upper")
