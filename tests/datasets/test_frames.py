"""Frames: content, pictures inside filled margins, and placement on a canvas."""

import io

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

from bispectral_ot.datasets.frames import FrameChoice, Placement, find_content, find_picture


def photograph(side=96, seed=0, channels=3):
    """Texture that fills its canvas."""
    smooth = gaussian_filter(np.random.default_rng(seed).random((side, side, channels)), (3, 3, 0))
    return np.uint8(255 * (smooth - smooth.min()) / np.ptp(smooth))


def blob(side=64, centre=(32, 32), radii=(12, 7), background=200, level=40):
    y, x = np.indices((side, side)) + 0.5
    inside = ((y - centre[0]) / radii[0]) ** 2 + ((x - centre[1]) / radii[1]) ** 2 <= 1
    return np.where(inside, level, background).astype(np.uint8)


def turned(image, degrees, fill, quality=None, *, expand=True):
    """As an editor turns a picture on an enlarged canvas, or in place."""
    picture = Image.fromarray(image).rotate(degrees, Image.Resampling.BILINEAR, expand=expand, fillcolor=(fill,) * 3)
    if quality:
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=quality)
        picture = Image.open(file)
    return np.asarray(picture)


@pytest.mark.parametrize("fill", [0, 255, 128])
@pytest.mark.parametrize("degrees", [10, 45, 130])
def test_a_turned_picture_is_found_on_its_canvas(fill, degrees):
    for image, expand in ((photograph(), True), (photograph(), False), (photograph()[:70], False)):
        picture = find_picture(turned(image, degrees, fill, expand=expand))
        assert (picture.side, picture.degrees) == pytest.approx((96, -degrees % 90), abs=1.5)
        seen = turned(np.full_like(image, 99), degrees, 0, expand=expand)[..., 0] > 0
        assert not picture.inside[~seen].any()
        assert picture.inside.sum() > 0.95 * seen.sum()


def test_pictures_are_found_after_jpeg_and_off_the_centre():
    assert abs(find_picture(turned(photograph(), 30, 0, quality=30)).side - 96) < 0.5
    picture = find_picture(np.pad(photograph(), ((20, 34), (5, 39), (0, 0)), constant_values=255))
    assert picture.centre == pytest.approx((68, 53))
    assert (picture.side, picture.inside.sum()) == (96, 96 * 96)


@pytest.mark.filterwarnings("error")
def test_thin_strokes_are_no_pictures():
    stroke = np.zeros((64, 64, 3), np.uint8)
    stroke[30:34, 16:48] = 255
    for degrees in range(15, 90, 15):
        assert find_picture(turned(stroke, degrees, 0, quality=50, expand=False)) is None


def test_a_margin_in_the_colour_of_the_border_is_cut_off_and_not_the_background():
    noise = np.random.default_rng(0).normal(0, 5, (64, 64, 3))
    image = np.uint8((blob(radii=(26, 24))[..., None] + noise).clip(0, 255))
    assert abs(find_picture(turned(image, 30, 200)).side - 64) < 1
    square = 80 * (np.abs(np.indices((64, 64)) - 31.5).max(axis=0) < 16)  # a pixel in eight around it has the same grey
    image = np.uint8(70 + noise[..., :1].repeat(3, axis=2) + square[..., None])
    assert abs(find_picture(turned(image, 30, 70)).side - 64) < 1  # 32 before


def test_surfaces_with_noise_are_no_pictures_but_are_found_on_a_margin():
    """Scratches were taken for pictures, and waves of JPEG made the surface 16 pixels larger."""
    random = np.random.default_rng(0)
    surface = np.clip(random.normal(130, 8, (96, 96, 3)), 0, 255).astype(np.uint8)
    assert abs(find_picture(turned(surface, 30, 0, quality=92)).side - 96) < 0.5
    surface[:, 30:52] = np.minimum(surface[:, 30:52], 100) + 120
    assert find_picture(surface) is None
    surface[:12, :12] = surface[-12:, -12:] = 0  # corners that differ from all else
    assert find_picture(surface) is None


def test_sets_of_which_one_has_more_background_are_shown_at_one_scale():
    """Digits turned on an enlarged canvas were made smaller, and their content was called different."""
    small, large = [blob(40, (20, 20))] * 3, [blob(side, (side / 2, side / 2)) for side in (44, 50, 56)]
    assert FrameChoice()([small, large], "ab") == (Placement("common", 40),) * 2
    assert FrameChoice()([small, [photograph(50)] * 3], "ab") == (Placement(),) * 2
    assert FrameChoice()([small], "a") == (Placement(),)


def test_a_picture_is_placed_as_if_it_had_been_turned_in_place():
    image = photograph()
    in_place = np.asarray(Image.fromarray(image).rotate(37, Image.Resampling.BILINEAR))
    placed = Placement("picture")(turned(image, 37, 255)[None], (96, 96))[0].astype(int)
    y, x = np.indices((96, 96)) - 47.5
    assert np.abs(placed - in_place)[np.hypot(y, x) < 44].mean() < 3
    assert (placed[0, 0] != 255).any()  # the margin has the colour of the picture's own border


@pytest.mark.parametrize(("centre", "radii"), [((32, 32), (12, 7)), ((20, 41), (12, 7)), ((32, 32), (6, 3.5))])
def test_content_is_centred_and_scaled(centre, radii):
    image = blob(centre=centre, radii=radii)
    content = find_content(image[..., None])
    assert content.is_clear
    assert content.centre == pytest.approx(centre, abs=0.3)
    assert content.radius == pytest.approx(np.hypot(*radii) / 2, rel=0.05)
    placed = Placement("content")(image[None], (64, 64))[0]
    expected = Placement("content")(blob(side=128, centre=(64, 64), radii=(24, 14))[None], (64, 64))[0]
    assert np.abs(placed.astype(int) - expected).mean() < 10


def test_images_without_content_on_a_background_keep_their_canvas():
    for image in (photograph(), np.full((32, 32, 1), 7, np.uint8), np.full((1, 1, 1), 7, np.uint8)):
        assert not find_content(image).is_clear
        np.testing.assert_array_equal(Placement("content")(image[None], image.shape[:2])[0], image)
    for image in (photograph(), blob()[..., None], np.zeros((40, 40, 1), np.uint8), np.zeros((4, 4, 1))):
        assert find_picture(image) is None  # no margin around a rectangle


def test_a_common_scale_cuts_enlarged_canvases_and_pads_small_ones():
    image = photograph(64)
    enlarged = np.pad(image, ((9, 9), (9, 9), (0, 0)))
    np.testing.assert_array_equal(Placement("common", 64)(enlarged[None], (64, 64))[0], image)
    small = blob(40, (20, 20))
    placed = Placement("common", 64)(small[None], (64, 64))[0]
    np.testing.assert_array_equal(placed[12:52, 12:52], small)
    assert (placed[:12] == 200).all()
