"""Write pictures of docs/method.md and docs/performance.md to docs/images: ``python docs/make_method_figures.py``."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import bispectral_ot as bot

IMAGES = Path(__file__).resolve().parent / "images"


def ring_figure() -> None:
    """A digit and the same digit turned: a ring read off each, its coefficients, and their bispectra."""
    digits = bot.load("mnist-5k")
    image = digits.images[np.flatnonzero(digits.labels == 2)[3]].astype(float)
    turned = bot.rotate_randomly(image[None], seed=3).images[0]
    angles = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    figure, several = plt.subplots(2, 4, figsize=(10, 4.4), layout="constrained")
    for row, picture in zip(several, (image, turned), strict=True):
        y, x = 13.5 - 6 * np.sin(angles), 13.5 + 6 * np.cos(angles)
        ring = picture[y.round().astype(int), x.round().astype(int)] / 255
        coefficients = np.fft.fft(ring)
        row[0].imshow(picture, cmap="gray")
        row[0].plot(x, y, color="C1", lw=1.5)
        row[0].set_axis_off()
        row[1].plot(np.degrees(angles), ring, color="C1")
        row[1].set(xticks=(0, 180, 360), yticks=())
        row[2].stem(range(1, 9), np.angle(coefficients[1:9]), basefmt=" ")
        row[2].set(ylim=(-3.5, 3.5), xticks=range(1, 9))
        bispectrum = coefficients[:9, None] * coefficients[:9] * coefficients[np.add.outer(range(9), range(9))].conj()
        row[3].imshow(np.sign(bispectrum.real) * abs(bispectrum.real) ** (1 / 3), cmap="RdBu", vmin=-9, vmax=9)
        row[3].set(xticks=(), yticks=())
    titles = ("image, and one ring", "values on the ring", "phases of F[1] to F[8]", "bispectrum (real part)")
    for axes, title in zip(several[0], titles, strict=True):
        axes.set_title(title, fontsize=10)
    figure.savefig(IMAGES / "method-ring.png", dpi=90)


def plan_figure() -> None:
    """Two sets of points: nearest neighbours, and a plan that treats every target alike."""
    random = np.random.default_rng(4)
    source = random.normal([[0.0, 0.0]], 0.45, (14, 2))
    target = np.concatenate([random.normal([1.6, 0.3], 0.2, (3, 2)), random.normal([2.6, 0.0], 0.55, (11, 2))])
    cost = np.square(source[:, None] - target).sum(axis=2)
    nearest = np.eye(14)[cost.argmin(axis=1)]
    plan = 14 * bot.Sinkhorn(reg=0.01).solve(bot.Cost.from_matrix(cost)).rows(0, 14)
    figure, several = plt.subplots(1, 2, figsize=(9, 2.8), layout="constrained")
    for axes, title, shares in zip(several, ("nearest neighbours", "transport plan"), (nearest, plan), strict=True):
        for i, j in np.argwhere(shares > 0.02):
            axes.plot(*np.stack([source[i], target[j]]).T, color="gray", alpha=float(min(1.0, shares[i, j])), lw=1.2)
        axes.scatter(*source.T, label="sources", zorder=3)
        axes.scatter(*target.T, marker="^", label="targets", zorder=3)
        axes.set(title=title, xticks=(), yticks=(), aspect="equal")
    several[0].legend(fontsize=8, loc="upper left")
    figure.savefig(IMAGES / "method-plan.png", dpi=90)


def limits_figure() -> None:
    """Seconds of each stage by the number of digits, from docs/results/benchmarks/limits.json, with slopes."""
    path = IMAGES.parent / "results" / "benchmarks" / "limits.json"
    table = next(each for each in json.loads(path.read_text())["tables"] if each["title"] == "Growth of each stage")
    names = [name for name in table["columns"] if name not in ("stage", "slope")]
    sizes = [int(name.replace(",", "")) for name in names]
    figure, axes = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
    for i, row in enumerate(table["rows"]):
        if row["slope"] is not None:
            slope = row["slope"].replace("n^", "slope ")
            style = {"marker": "o", "ms": 3, "ls": "-" if i < 10 else "--", "label": f"{row['stage']}, {slope}"}
            axes.loglog(sizes, [row[name] for name in names], **style)
    axes.set(xlabel="digits on each side", ylabel="seconds", xticks=sizes)
    axes.set_xticks(sizes, labels=names)
    axes.minorticks_off()
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "limits.png", dpi=110)


if __name__ == "__main__":
    ring_figure()
    plan_figure()
    limits_figure()
