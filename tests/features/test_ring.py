"""Ring features: the literal formula, folding, invariance, hard input."""

import numpy as np
import pytest
import scipy.fft
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bispectral_ot.errors import DataWarning
from bispectral_ot.features import RingBispectrum
from oracles import METRICS, distance, ring_bispectrum


def random_images(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@st.composite
def small_problems(draw: st.DrawFn) -> tuple[NDArray[np.float32], dict[str, object]]:
    shape = (draw(st.integers(4, 11)), draw(st.integers(4, 11)))
    channels = draw(st.sampled_from([(), (1,), (3,)]))
    options = {
        "n_angles": draw(st.integers(1, 13)),
        "n_rings": draw(st.sampled_from([None, 2, 6])),
        "radial_weight": draw(st.sampled_from([0.0, 0.5, 1.0, 2.0])),
        "sampling": draw(st.sampled_from(["nearest", "bilinear"])),
    }
    return random_images(2, *shape, *channels, seed=draw(st.integers(0, 10**6))), options


def test_the_papers_columns() -> None:
    images = random_images(2, 28, 28)
    ring = RingBispectrum().fit(images)
    assert ring.n_features_out_ == 4018
    assert ring.feature_weights_.sum() == 44_800 - 14 * 118  # 118 pairs a ring are always real
    norms = np.sqrt(np.square(ring.transform(images)) @ ring.feature_weights_)
    np.testing.assert_allclose(norms, 1, rtol=1e-6)


@settings(max_examples=20)
@given(small_problems())
def test_columns_and_distances_are_those_of_the_literal_loop(
    problem: tuple[NDArray[np.float32], dict[str, object]],
) -> None:
    images, options = problem
    ring = RingBispectrum(**options).fit(images)
    n_angles, at = ring.n_angles, ring.index_map_
    folded, unfolded = ring.transform(images), [ring_bispectrum(image, **options) for image in images]
    for features, literal in zip(folded, unfolded, strict=True):
        literal = literal.reshape(-1, ring.sampler_.n_rings, 2, n_angles, n_angles)
        expected = literal[at["channel"], at["ring"], at["part"], at["i"], at["j"]]
        assert np.linalg.norm(features - expected) <= 1e-5 * np.linalg.norm(literal)
    for metric in METRICS:
        expected = distance(*unfolded, metric)
        assert distance(*folded, metric, ring.feature_weights_) == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("shape", [(12, 12), (13, 13), (28, 28), (12, 18), (13, 10), (11, 9, 3)])
def test_quarter_and_half_turns_change_features_by_rounding_only(shape: tuple[int, ...]) -> None:
    image = random_images(*shape)
    features = [RingBispectrum().fit_transform(np.rot90(image, quarter)[None])[0] for quarter in range(4)]
    assert np.abs(np.array(features) - features[0]).max() <= 2e-6


def test_pixel_types_and_scales_do_not_matter() -> None:
    images = np.random.default_rng(3).integers(0, 256, size=(3, 12, 12))
    expected = RingBispectrum().fit_transform(images.astype(np.float32))
    same = [images, images.astype(np.uint8), images.astype(np.float16), images.astype(np.uint16) * 257]
    same += [images.astype(np.int64) * 2**40, images * 1e300, images * 1e-300]
    same += [images.astype(np.float32) * np.float32(scale) for scale in (1e35, 1e-30)]
    for each in same:
        np.testing.assert_allclose(RingBispectrum().fit_transform(each), expected, atol=1e-6)
    assert expected.dtype == np.float32


def test_blank_images_give_zero_rows_and_one_warning() -> None:
    images = np.abs(random_images(5, 8, 8, 3))
    images[1] = 0
    images[3, :, :, 2] = 0
    with pytest.warns(DataWarning, match="2 of 5") as caught:
        features = RingBispectrum().fit_transform(images)
    assert len(caught) == 1
    assert np.isfinite(features).all()
    assert not features[1].any()
    assert features[3].any()
    assert not features[3].reshape(3, -1)[2].any()


def test_rounding_is_not_taken_for_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single angular wave has no bispectrum; what rounding leaves of it must not be scaled up to norm 1."""
    transformer = RingBispectrum().fit(np.zeros((1, 8, 8)))
    wave = np.cos(2 * np.pi * np.arange(40) / 40).astype(np.float32)
    features = np.ones((1, transformer.n_features_out_), dtype=np.float32)
    monkeypatch.setattr(transformer, "_spectra", lambda _: scipy.fft.fft(np.tile(wave, (1, 4, 1))))
    assert transformer._fill(np.zeros((1, 64)), features) == 1
    assert not features.any()


@pytest.mark.parametrize(("sampling", "bound"), [("bilinear", 0.02), ("nearest", 0.35)])
def test_turned_pixels_stay_near(sampling: str, bound: float) -> None:
    """Measured on six images: at most 0.013 (bilinear) and 0.29 (nearest) between vectors of norm 1."""
    features = []
    for seed in range(6):
        images = np.stack([smooth_image(degrees, seed=seed) for degrees in range(0, 360, 17)])
        transformer = RingBispectrum(sampling=sampling).fit(images)
        features.append(transformer.transform(images) * np.sqrt(transformer.feature_weights_))
        assert np.linalg.norm(features[-1] - features[-1][0], axis=1).max() <= bound
    if sampling == "bilinear":  # other images are far beyond any turn: 0.19 at least
        apart = [np.linalg.norm(features[a][0] - features[b], axis=1).min() for a in range(6) for b in range(a)]
        assert min(apart) >= 0.15


def smooth_image(degrees: float, *, seed: int, size: int = 28) -> NDArray[np.float64]:
    """Eight Gaussian blobs near the middle, turned about the exact centre by an exact formula."""
    rng, angle = np.random.default_rng(seed), np.deg2rad(degrees)
    y, x = np.mgrid[:size, :size] - (size - 1) / 2
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    centres = size * rng.uniform(-0.25, 0.25, size=(8, 2)) @ turn
    blobs = np.exp(-((y - centres[:, 0, None, None]) ** 2 + (x - centres[:, 1, None, None]) ** 2) / (2 * 2.0**2))
    return np.tensordot(rng.uniform(0.3, 1, size=8), blobs, axes=1)
