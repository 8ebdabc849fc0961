from __future__ import annotations

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.datasets import rotate
from bispectral_ot.errors import InputError
from studies import Preset
from studies.preset import checksum

DIGITS = bot.load("digits")


def test_the_paper_normalizes_first_and_leaves_corners_at_zero() -> None:
    a, b = Preset(per_class=20).halves(DIGITS, "rotated")
    upright, _ = bot.split_halves(bot.normalize(DIGITS), seed=0, per_class=20)
    angles = np.random.default_rng(0).uniform(0, 360, len(a))
    np.testing.assert_array_equal(a.images, rotate(upright.images, angles, fill=0.0).images)
    np.testing.assert_allclose(
        b.images, (DIGITS.select(_places(b)).images - DIGITS.images.mean()) / DIGITS.images.std(), rtol=1e-5, atol=1e-6
    )


def test_clean_is_the_same_as_turning_before_normalizing() -> None:
    a, _ = Preset(per_class=20).cleaned().halves(DIGITS, "rotated")
    raw, _ = bot.split_halves(DIGITS, seed=0, per_class=20)
    turned = bot.rotate_randomly(raw, seed=0, fill="background").images
    np.testing.assert_allclose(a.images, (turned - DIGITS.images.mean()) / DIGITS.images.std(), atol=1e-4)


def test_the_baseline_turns_nothing() -> None:
    a, b = Preset(per_class=20).halves(DIGITS, "baseline")
    c, d = bot.split_halves(bot.normalize(DIGITS), seed=0, per_class=20)
    np.testing.assert_array_equal(a.images, c.images)
    np.testing.assert_array_equal(b.images, d.images)


def test_defaults_are_the_papers() -> None:
    parameters = Preset().transformer("ring-bispectrum").get_params()
    assert (parameters["n_angles"], parameters["n_rings"]) == (40, None)
    assert (parameters["radial_weight"], parameters["sampling"]) == (1.0, "nearest")
    assert (Preset().seed, Preset().reg) == (0, 0.01)
    cleaned = Preset(n_angles=16).cleaned().transformer("ring-power").get_params()
    assert (cleaned["n_angles"], cleaned["sampling"]) == (16, "bilinear")


@pytest.mark.parametrize("choices", [{"reg": 0.0}, {"tol": -1.0}, {"fill": "white"}])
def test_wrong_choices_are_refused(choices: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Preset(**choices)  # type: ignore[arg-type]


def test_the_checksum_sees_images_and_labels() -> None:
    assert checksum(DIGITS) == checksum(bot.load("digits"))
    assert checksum(DIGITS) != checksum(DIGITS.select(slice(1, None)))
    relabelled = bot.Dataset(DIGITS.images, DIGITS.labels[::-1], name="digits", classes=DIGITS.classes)
    assert checksum(DIGITS) != checksum(relabelled)


def _places(b: bot.Dataset) -> np.ndarray:
    """Where the images of the second half stand in the whole set."""
    random = np.random.default_rng(0)
    places = []
    for label in range(10):
        members = random.permutation(np.flatnonzero(DIGITS.labels == label))
        places.append(members[len(members) // 2 :][: len(b) // 10])
    return np.concatenate(places)
