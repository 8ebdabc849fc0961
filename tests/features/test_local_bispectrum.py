"""Local bispectra: the literal formula, exact invariance on the grid, and how much really turned pixels change."""

import warnings

import numpy as np
import pytest
import scipy.ndimage

from bispectral_ot.datasets import rotate
from bispectral_ot.errors import DataWarning
from bispectral_ot.features.local_bispectrum import HISTOGRAM, MAGNITUDE, PAIR, LocalBispectrum

SMOOTHING = np.array([1, 4, 6, 4, 1]) / 16


def some_images(n=12, shape=(32, 32), seed=0):
    """Smooth random content on a background of zeros, away from the border."""
    random = np.random.default_rng(seed)
    images = random.normal(size=(n, *shape))
    images = scipy.ndimage.gaussian_filter(images, (0, 1.2, 1.2, *[0] * (len(shape) - 2)))
    y, x = np.ogrid[: shape[0], : shape[1]]
    inside = np.hypot(y - (shape[0] - 1) / 2, x - (shape[1] - 1) / 2) < 0.3 * min(shape[:2])
    return images * inside.reshape(1, *shape[:2], *[1] * (len(shape) - 2))


def literal(image, local):
    """The columns of one image before they are standardized, by convolutions and loops over ``index_map_``."""
    size = image.shape[:2]
    planes = np.asarray(image, dtype=float).reshape(*size, -1).transpose(2, 0, 1)
    channels = len(planes)
    mixed = []
    for k in range(channels):  # the mean, and then the mean of the first k against the next
        contrast = np.ones(channels) if k == 0 else np.r_[np.ones(k), -k, np.zeros(channels - k - 1)]
        mixed.append(np.tensordot(contrast / np.linalg.norm(contrast), planes, 1))
    y, x = np.mgrid[: size[0], : size[1]]
    distance = np.hypot(y - (size[0] - 1) / 2, x - (size[1] - 1) / 2)
    circle, disk = np.abs(distance - (min(size) - 1) / 2) <= 1, distance <= min(size) / 2
    contents = [plane - np.median(plane[circle]) for plane in mixed]
    values = [plane[disk] for plane in (contents if local.intensity == "ignore" else mixed)]
    if local.intensity == "ignore":
        root_mean_square = np.sqrt(np.mean(np.square(values)))
        contents, values = ([part / root_mean_square for part in parts] for parts in (contents, values))
    else:
        contents, values = ([part / local.scale_ for part in parts] for parts in (contents, values))
    fade = np.clip((1 - distance / (min(size) / 2)) / 0.1, 0, 1)
    contents = [plane * fade**2 * (3 - 2 * fade) for plane in contents]

    def smooth(plane):
        return scipy.ndimage.convolve(plane, np.outer(SMOOTHING, SMOOTHING), mode="constant")

    def halve(plane):
        for axis in (0, 1):
            plane = plane.swapaxes(0, axis)
            plane = (plane[::2] + plane[1::2]) / 2 if len(plane) % 2 == 0 else plane[::2]
            plane = plane.swapaxes(0, axis)
        return plane

    def pyramid(plane):
        levels = [smooth(plane)]
        for _ in local.disks_[1:]:
            levels.append(smooth(halve(levels[-1])))
        return levels

    def derive(plane, sign):
        kernel = np.outer([1, 4, 1], [-1, 0, 1]) / 12
        dx = scipy.ndimage.correlate(plane, kernel, mode="constant")
        dy = scipy.ndimage.correlate(plane, kernel.T, mode="constant")
        return dx + sign * 1j * dy

    def response(level, field, order):
        spin = 0 if field < channels else (0, 2, 4)[field - channels]
        plane = pyramids[field][level].astype(complex)
        if field < channels and order == 0:
            return derive(derive(plane, 1), -1)
        for _ in range(abs(order - spin)):
            plane = derive(plane, np.sign(order - spin))
        return plane

    def power(z, exponent):
        return np.abs(z) ** exponent * np.exp(1j * np.angle(z))

    pyramids = [pyramid(plane) for plane in contents]
    gradients = [derive(levels[0].astype(complex), 1) for levels in pyramids]
    for spin in (0, 2, 4):
        pyramids.append(pyramid(sum(np.sqrt(np.abs(g)) * np.exp(1j * spin * np.angle(g)) for g in gradients)))
    columns = []
    for row in local.index_map_:
        if row["kind"] == HISTOGRAM:
            channel = row["field"]
            ramp = local.slopes_[channel] * (values[channel] - local.bins_[channel, row["i"]]) + 0.5
            columns.append(np.clip(ramp, 0, 1).mean())
            continue
        first = response(row["level"], row["field"], row["i"])
        if row["kind"] == MAGNITUDE:
            value = np.abs(first)
        elif row["kind"] == PAIR:
            value = power(first, 0.5) * power(response(row["level"], row["other"], row["i"]), 0.5).conj()
        else:
            second = response(row["level"], row["field"], row["j"])
            third = response(row["level"], row["field"], row["i"] + row["j"])
            value = power(first, 0.25) * power(second, 0.25) * power(third, 0.5).conj()
        part = value.imag if row["part"] else value.real
        level_y, level_x = np.mgrid[: part.shape[0], : part.shape[1]]
        radius = np.hypot(level_y - (part.shape[0] - 1) / 2, level_x - (part.shape[1] - 1) / 2)
        pooled = part[radius <= min(part.shape) / 2]
        columns.append(pooled.std() if row["spread"] else pooled.mean())
    return np.array(columns)


@pytest.mark.parametrize(
    ("shape", "intensity"), [((24, 24), "keep"), ((21, 21), "ignore"), ((33, 29), "ignore"), ((24, 24, 3), "keep")]
)
def test_the_features_are_the_literal_formula(shape, intensity):
    images = some_images(6, shape) + 3
    local = LocalBispectrum(intensity=intensity).fit(images)
    features = local.transform(images) * np.where(np.isinf(local.deviations_), 0, local.deviations_) + local.means_
    for image, row in zip(images, features, strict=True):
        np.testing.assert_allclose(row, literal(image, local), atol=3e-4)


@pytest.mark.parametrize("shape", [(32, 32), (33, 33), (24, 24, 3), (150, 150)])
def test_quarter_turns_change_nothing(shape):
    images, local = np.random.default_rng(0).random((8, *shape)), LocalBispectrum()
    features = local.fit_transform(images)
    np.testing.assert_array_equal(local.transform(images), features)
    for turns in (1, 2, 3):
        np.testing.assert_allclose(local.transform(np.rot90(images, turns, axes=(1, 2))), features, atol=5e-3)
    assert np.abs(features).max() > 1
    assert np.abs(local.transform(images.swapaxes(1, 2)) - features).max() > 0.1  # a mirror image is another one
    both = LocalBispectrum(symmetry="rotation-reflection").fit(images)
    np.testing.assert_allclose(both.transform(images[:, ::-1]), both.transform(images), atol=5e-3)


def test_brightness_counts_only_if_it_is_kept():
    images = some_images(10, (24, 24)) + 1
    brighter, ignoring = 3 * images + 2, LocalBispectrum(intensity="ignore").fit(images)
    np.testing.assert_allclose(ignoring.transform(brighter), ignoring.transform(images), atol=5e-3)
    keeping = LocalBispectrum(intensity="keep").fit(images)
    assert np.abs(keeping.transform(brighter) - keeping.transform(images)).max() > 1


def test_images_without_content_in_the_disk_are_counted():
    images = some_images(6, (24, 24))
    local = LocalBispectrum().fit(images)
    images[2] = 7
    images[4, 0, 0] = 1  # a corner is outside
    images[4, 1:] = 0
    with pytest.warns(DataWarning, match="2 of 6"):
        features = local.transform(images)
    assert np.isfinite(features).all()
    np.testing.assert_allclose(features[2], features[4], atol=1e-5)
    with warnings.catch_warnings(action="error"):
        local.transform(images[:2])


def test_shifts_and_real_turns_change_little():
    random, images = np.random.default_rng(0), np.zeros((30, 64, 64))
    for image in images:  # blobs of different number, size and grain
        content = scipy.ndimage.gaussian_filter(random.normal(size=(32, 32)), random.uniform(1, 4))
        image[16:48, 16:48] = (content > random.uniform(-0.5, 0.5) * content.std()) * random.uniform(0.5, 1)
    images = scipy.ndimage.gaussian_filter(images, (0, 1, 1))
    local = LocalBispectrum().fit(images)
    features = local.transform(images)
    distances = np.sqrt(np.square(features[:, None] - features).sum(axis=2))
    between = np.median(distances[np.triu_indices(len(images), 1)])
    shifted = local.transform(np.roll(images, (3, -2), axis=(1, 2)))
    turned = local.transform(rotate(images, np.linspace(10, 350, len(images))).images)
    moved = [np.median(np.sqrt(np.square(other - features).sum(axis=1))) / between for other in (shifted, turned)]
    assert moved[0] < 0.2
    assert moved[1] < 0.3
