"""Known motions are found, whatever the symmetry; one sign convention for all."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from bispectral_ot.datasets import rotate
from bispectral_ot.features import ShellBispectrum
from bispectral_ot.poses import estimate_poses, find_motions, turn_image, upright_images
from bispectral_ot.poses.motions import wrapped
from studies.spherical import project_to_sphere

RANDOM = np.random.default_rng(0)


def shapes(n: int, *, side: int = 20) -> np.ndarray:
    """Smooth images without any symmetry, their content well inside."""
    y, x = np.mgrid[:side, :side] - (side - 1) / 2
    random, images = np.random.default_rng(1), np.zeros((n, side, side))
    for image in images:
        for _ in range(6):
            row, column = random.uniform(-0.25 * side, 0.25 * side, 2)
            width = random.uniform(1.2, 2.5)
            image += random.uniform(0.3, 1) * np.exp(-((y - row) ** 2 + (x - column) ** 2) / (2 * width**2))
    return (255 * images / images.max()).astype(np.float32)


IMAGES = shapes(8)


def poses_of(moved, originals, symmetry, transformer=None):
    """Poses of moved images relative to the originals, one target each."""
    motions = find_motions(symmetry, originals, transformer)
    return estimate_poses(motions, (moved, originals), (np.arange(len(moved))[:, None], np.ones((len(moved), 1))))


@pytest.mark.parametrize("symmetry", ["rotation-reflection", "d4"])
@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("quarters", range(4))
def test_quarter_turns_and_mirrors_are_undone(symmetry, mirror, quarters):
    moved = np.rot90(IMAGES[:, :, ::-1] if mirror else IMAGES, quarters, axes=(1, 2))
    poses = poses_of(moved, IMAGES, symmetry)
    np.testing.assert_allclose(poses.angles % 90 % 89.999, 0, atol=0.01)
    for image, angle, mirrored, original in zip(moved, poses.angles, poses.mirrored, IMAGES, strict=True):
        np.testing.assert_array_equal(np.rot90(image[:, ::-1] if mirrored else image, round(angle / 90)), original)
    np.testing.assert_allclose(poses.fits, 1, atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(st.floats(-180, 180))
def test_any_turn_is_found_between_the_angles_of_the_grid(angle):
    poses = poses_of(rotate(IMAGES, angle).images, IMAGES, "rotation")
    assert np.abs(wrapped(poses.angles + angle)).max() < 0.6
    assert poses.mirrored is poses.shifts is poses.rotations is None


@settings(max_examples=20, deadline=None)
@given(st.integers(-9, 9), st.integers(-9, 9))
def test_shifts_are_found(down, right):
    poses = poses_of(np.roll(IMAGES, (down, right), axis=(1, 2)), IMAGES, "translation")
    np.testing.assert_allclose(poses.shifts, np.broadcast_to([-down, -right], (8, 2)), atol=1e-3)
    assert poses.angles is None


def test_shifts_are_found_between_pixels_and_on_images_that_are_not_square():
    wide = np.concatenate([IMAGES, np.zeros_like(IMAGES)[:, :, :9]], axis=2)
    frequencies = np.fft.fftfreq(20)[:, None] * 1.25 + np.fft.fftfreq(29) * -3.5
    moved = np.fft.ifft2(np.fft.fft2(wide) * np.exp(-2j * np.pi * frequencies)).real
    poses = poses_of(moved, wide, "translation")
    np.testing.assert_allclose(poses.shifts, np.broadcast_to([-1.25, 3.5], (8, 2)), atol=0.02)


@pytest.mark.parametrize("mirror", [False, True])
def test_turns_and_shifts_are_found_together(mirror):
    large = np.pad(IMAGES, ((0, 0), (14, 14), (14, 14)))
    angles, shifts = np.linspace(-170, 170, 8), np.random.default_rng(4).uniform(-6, 6, (8, 2))
    targets = np.roll(large, (3, -5), axis=(1, 2))
    each = zip(targets, angles, shifts, strict=True)
    moved = np.stack([turn_image(x, a, mirrored=mirror, shift=s) for x, a, s in each])
    symmetry = "rotation-reflection-translation" if mirror else "rotation-translation"
    poses = poses_of(moved, targets, symmetry)
    assert np.abs(wrapped(poses.angles - (angles if mirror else -angles))).max() < 0.6
    if mirror:
        assert poses.mirrored.all()
    back = upright_images(moved, dataclasses.replace(poses, ambiguous=np.zeros(8, dtype=bool)))
    np.testing.assert_allclose(back, targets, atol=0.1 * targets.max())


def test_rotations_of_signals_on_the_sphere_are_found():
    signals, rotations = project_to_sphere(IMAGES, angle=60), Rotation.random(8, rng=np.random.default_rng(2))
    turned = project_to_sphere(IMAGES, angle=60, rotations=rotations)
    poses = poses_of(turned, signals, "so3")
    assert np.degrees((poses.rotations * rotations).magnitude()).max() < 2
    assert poses.rotations.as_matrix().shape == (8, 3, 3)


def test_rotations_of_shapes_are_found_exactly():
    clouds = RANDOM.normal(size=(5, 60, 3)) * [1, 2, 3] + RANDOM.exponential(size=(5, 60, 3))
    rotations = Rotation.random(5, rng=np.random.default_rng(3))
    turned = np.stack([rotation.apply(cloud) for rotation, cloud in zip(rotations, clouds, strict=True)])
    poses = poses_of(turned, clouds, "so3-shapes", ShellBispectrum(lmax=5).fit(clouds))
    assert np.degrees((poses.rotations * rotations).magnitude()).max() < 0.01
