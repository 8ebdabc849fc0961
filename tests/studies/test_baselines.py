"""Baselines of the studies: power spectra of rings and of groups."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from group_examples import EXAMPLES, example, random_signals
from oracles import ring_samples, unit
from studies.baselines import GroupPowerSpectrum, RingPowerSpectrum


def random_images(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def test_power_spectrum_formula() -> None:
    images = random_images(2, 9, 8, 2)
    for n_angles in (7, 8):
        transformer = RingPowerSpectrum(n_angles=n_angles).fit(images)
        features = transformer.transform(images)
        assert features.shape == (2, 2 * 4 * (n_angles // 2 + 1))
        for n in range(2):
            for channel in range(2):
                rings = ring_samples(
                    images[n, :, :, channel],
                    n_angles=n_angles,
                    n_rings=4,
                    radial_weight=1.0,
                    sampling="bilinear",
                )
                full = unit((np.abs(np.fft.fft(rings)) ** 2).ravel()).reshape(4, n_angles)
                mine = transformer.index_map_["channel"] == channel
                np.testing.assert_allclose(
                    features[n, mine], full[:, : n_angles // 2 + 1].ravel(), rtol=1e-5, atol=1e-7
                )
        norms = np.sqrt(features**2 @ transformer.feature_weights_)
        np.testing.assert_allclose(norms, np.sqrt(2), rtol=1e-6)  # one unit norm a channel


def test_the_ring_power_spectrum_has_no_turns_and_no_mirrors() -> None:
    images = random_images(3, 12, 12)
    transformer = RingPowerSpectrum().fit(images)
    features = transformer.transform(images)
    for same in (np.rot90(images, axes=(1, 2)), images[:, :, ::-1]):
        np.testing.assert_allclose(transformer.transform(same), features, atol=2e-6)
    assert transformer.symmetry == "rotation-reflection"


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_group_power_spectrum_is_invariant_and_literal(name: str) -> None:
    group = example(name)
    signals = random_signals(group, 3)
    power = GroupPowerSpectrum(group, normalize=False)
    features = power.fit_transform(signals)
    np.testing.assert_allclose(
        power.transform(group.translate(signals, 1)), features, atol=1e-6 * np.abs(features).max()
    )
    squares = [part.conj().swapaxes(1, 2) @ part for part in group.fourier(signals)]  # as the paper writes it
    total = sum(np.sum(np.abs(square) ** 2, axis=(1, 2)) for square in squares)
    np.testing.assert_allclose(features.astype(float) ** 2 @ power.feature_weights_, total, rtol=1e-5)
