"""Baselines of the studies: power spectra of rings."""

import numpy as np

from oracles import ring_samples, unit
from studies.baselines import RingPowerSpectrum


def test_power_spectrum_formula() -> None:
    images = np.random.default_rng(0).normal(size=(2, 9, 8, 2)).astype(np.float32)
    for n_angles in (7, 8):
        transformer = RingPowerSpectrum(n_angles=n_angles).fit(images)
        features = transformer.transform(images)
        assert features.shape == (2, 2 * 4 * (n_angles // 2 + 1))
        for n in range(2):
            for channel in range(2):
                grid = {"n_angles": n_angles, "n_rings": 4, "radial_weight": 1.0, "sampling": "bilinear"}
                rings = ring_samples(images[n, :, :, channel], **grid)
                full = unit((np.abs(np.fft.fft(rings)) ** 2).ravel()).reshape(4, n_angles)[:, : n_angles // 2 + 1]
                mine = transformer.index_map_["channel"] == channel
                np.testing.assert_allclose(features[n, mine], full.ravel(), rtol=1e-5, atol=1e-7)
        norms = np.sqrt(features**2 @ transformer.feature_weights_)
        np.testing.assert_allclose(norms, np.sqrt(2), rtol=1e-6)  # one unit norm a channel
