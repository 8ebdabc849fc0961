"""Local and coupled bispectra in one row: how the parts are scaled and weighed, and what is not seen."""

import numpy as np
import pytest
import scipy.linalg
import scipy.ndimage
from sklearn.metrics.pairwise import euclidean_distances

import bispectral_ot as bot
from bispectral_ot.features import CombinedBispectrum
from bispectral_ot.features.combined import whitening


def shapes(n=60, side=32, seed=0):
    """Smooth blobs near the centre of a background of zeros."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side] - (side - 1) / 2
    centres, widths = random.uniform(-0.2 * side, 0.2 * side, (n, 3, 2, 1, 1)), random.uniform(1.5, 4, (n, 3, 1, 1))
    return np.exp(-((y - centres[:, :, 0]) ** 2 + (x - centres[:, :, 1]) ** 2) / (2 * widths**2)).sum(axis=1)


def textures(n=60, side=32, seed=0):
    """Noise of different grain, which has no place in the image."""
    random = np.random.default_rng(seed)
    grains = random.uniform(0.6, 2.5, n)
    return np.stack([scipy.ndimage.gaussian_filter(random.normal(size=(side, side)), grain) for grain in grains])


def test_whitening_is_the_power_of_the_covariance():
    random = np.random.default_rng(0)
    rows = (random.normal(size=(500, 6)) @ random.normal(size=(6, 6))).astype(np.float32)
    changes = (0.1 * random.normal(size=(200, 6)) * np.arange(6)).astype(np.float32)
    whitened = rows @ whitening(rows, changes)
    assert whitened.var(axis=0).sum() == pytest.approx(1, rel=1e-4)
    both = np.cov(rows.T, bias=True) + 1000 / 2 * changes.T @ changes / len(changes)
    literal = rows @ scipy.linalg.fractional_matrix_power(both, -3 / 8)
    literal /= np.sqrt(literal.var(axis=0).sum())
    found, expected = euclidean_distances(whitened[:9]), euclidean_distances(literal[:9])
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_a_row_is_the_two_parts_projected_and_weighted():
    images = shapes()
    combined = CombinedBispectrum(kept_variance=1.0).fit(images)
    rows, kind = combined.transform(images), combined.index_map_["part"]
    local, coupled = (part.transform(images) for part in combined.parts_)
    np.testing.assert_allclose(rows[:, kind == 0], local @ combined.projections_[0], atol=1e-4)
    np.testing.assert_allclose(rows[:, kind == 1], coupled @ combined.projections_[1], atol=1e-4)
    assert rows[:, kind == 0].var(axis=0).sum() == pytest.approx(1, rel=1e-3)
    assert rows[:, kind == 1].var(axis=0).sum() == pytest.approx(combined.coupled_weight_, rel=1e-3)
    # the weighted distance of coupled rows, as long as nothing is left out
    weighted = coupled * np.sqrt(combined.parts_[1].feature_weights_)
    weighted *= np.sqrt(combined.coupled_weight_ / weighted.var(axis=0).sum())
    found, expected = euclidean_distances(rows[:, kind == 1]), euclidean_distances(weighted)
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_the_coupled_part_counts_for_shapes_and_not_for_textures():
    on_background = CombinedBispectrum().fit(bot.load("digits").images[:600]).coupled_weight_
    everywhere = CombinedBispectrum().fit(textures(200)).coupled_weight_
    assert on_background > 0.3
    assert everywhere < 0.1


@pytest.mark.parametrize("symmetry", CombinedBispectrum.symmetries)
@pytest.mark.parametrize("channels", [1, 3])
def test_quarter_turns_change_nothing(symmetry, channels):
    images = shapes(30) if channels == 1 else np.stack([shapes(30, seed=seed) for seed in range(3)], axis=3)
    combined = CombinedBispectrum(symmetry=symmetry).fit(images)
    rows = combined.transform(images)
    np.testing.assert_allclose(combined.transform(np.rot90(images, axes=(1, 2))), rows, atol=2e-3)
    if "reflection" in symmetry:
        np.testing.assert_allclose(combined.transform(images[:, ::-1]), rows, atol=2e-3)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_few_images_are_enough(n):
    images = shapes(n)
    combined = CombinedBispectrum().fit(images)
    assert np.isfinite(combined.transform(images)).all()
    assert combined.coupled_weight_ == 1


def test_similarity_ignores_position_and_size_of_content_on_a_background() -> None:
    from scipy.ndimage import zoom

    random = np.random.default_rng(0)
    shapes = np.repeat(np.repeat(random.random((24, 5, 5)) > 0.5, 4, axis=1), 4, axis=2) * 200.0
    large, small = np.zeros((2, 24, 64, 64))
    large[:, 12:52, 10:50] = [zoom(shape, 2, order=1) for shape in shapes]
    small[:, 30:50, 5:25] = shapes
    for symmetry, agrees in (("similarity", True), ("rotation-translation", False)):
        features = CombinedBispectrum(symmetry=symmetry).fit(np.concatenate([large, small]))
        one, other = features.transform(large), features.transform(small)
        nearest = ((one[:, None] - other) ** 2).sum(axis=2).argmin(axis=1)
        assert ((nearest == np.arange(24)).mean() > 0.9) == agrees


def test_affine_intensity_ignores_gains_and_offsets_of_channels():
    images = scipy.ndimage.gaussian_filter(np.random.default_rng(0).random((24, 24, 24, 3)), (0, 2, 2, 0)) * 1000
    changed = images * [1.2, 0.7, 0.9] + [-20, 25, 5]
    apart = {}
    for intensity in ("ignore", "affine"):
        combined = CombinedBispectrum(intensity=intensity).fit(images)
        found, again = combined.transform(images), combined.transform(changed)
        apart[intensity] = np.square(found - again).sum() / np.square(found - np.roll(found, 1, axis=0)).sum()
    assert apart["affine"] < 0.03 < apart["ignore"]
