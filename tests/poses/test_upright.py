"""Images and files that are put upright."""

import imagecodecs
import numpy as np
import pytest
from PIL import Image

import bispectral_ot as bot
from bispectral_ot.poses import MotionArray, Poses, turn_image, upright_files, upright_images

RANDOM = np.random.default_rng(0)


def poses_for(n, *, angles=None, mirrored=None, shifts=None, quaternions=None, ambiguous=(), size=(8, 8)):
    angles, mirrored = (None if each is None else np.asarray(each) for each in (angles, mirrored))
    motions = MotionArray(angles, mirrored=mirrored, shifts=shifts, quaternions=quaternions)
    unsure, none = np.isin(np.arange(n), ambiguous), np.zeros((n, 1))
    each = {name: np.ones(n) for name in ("fits", "scores", "uncertainty")}
    others = {"runner_up": motions, "by_target": motions, "targets": none.astype(int), "weights": none}
    return Poses(**vars(motions), **others, **each, ambiguous=unsure, size=size)


def photograph(height, width, *, dtype=np.uint8, channels=()):
    """A bright blot off the centre, on a plain background."""
    y, x = np.mgrid[:height, :width]
    blot = np.exp(-(((y - 0.35 * height) / (0.12 * height)) ** 2) - ((x - 0.6 * width) / (0.1 * width)) ** 2)
    most = np.iinfo(dtype).max if np.dtype(dtype).kind == "u" else 1.0
    image = (0.1 + 0.8 * blot) * most
    return np.broadcast_to(image.reshape(height, width, *[1] * len(channels)), (height, width, *channels)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("channels", [(), (3,)])
@pytest.mark.parametrize("quarters", [-1, 2, 3])
def test_quarter_turns_are_exact_and_counter_clockwise(dtype, channels, quarters):
    image = (RANDOM.random((9, 9, *channels)) * 255).astype(dtype)
    turned = turn_image(image, 90.0 * quarters)
    assert turned.dtype == dtype
    np.testing.assert_array_equal(turned, np.rot90(image, quarters))
    np.testing.assert_array_equal(turn_image(image, 90.0 * quarters, mirrored=True), np.rot90(image[:, ::-1], quarters))


def test_corners_get_the_background_or_what_is_asked_for():
    image = photograph(30, 30, channels=(3,))
    np.testing.assert_array_equal(turn_image(image, 45.0)[0, 0], image[0, 0])
    np.testing.assert_array_equal(turn_image(image, 45.0, fill=[1, 2, 3])[0, 0], [1, 2, 3])


def test_images_move_into_their_poses_but_for_unsure_ones():
    images = RANDOM.integers(0, 255, (4, 8, 8)).astype(np.uint8)
    poses = poses_for(4, angles=[90.0, 180.0, 90.0, 0.0], mirrored=[False, True, False, True], ambiguous=[2])
    expected = [np.rot90(images[0]), np.rot90(images[1][:, ::-1], 2), images[2], images[3][:, ::-1]]
    np.testing.assert_array_equal(upright_images(images, poses), expected)
    np.testing.assert_array_equal(upright_images(images, poses, include_ambiguous=True)[2], np.rot90(images[2]))
    large = upright_images(images, poses, expand=True)
    assert large.shape == (4, 12, 12)
    np.testing.assert_array_equal(large[0, 2:-2, 2:-2], np.rot90(images[0]))
    with pytest.raises(bot.InputError, match="3 images but 4 poses"):
        upright_images(images[:3], poses)


def test_shifts_and_clouds_move_likewise():
    images = RANDOM.integers(0, 255, (2, 8, 8)).astype(np.uint8)
    poses = poses_for(2, shifts=np.array([[1.0, -2.0], [3.0, 0.0]]), ambiguous=[1])
    np.testing.assert_array_equal(upright_images(images, poses)[0], np.roll(images[0], (1, -2), axis=(0, 1)))
    np.testing.assert_array_equal(upright_images(images, poses)[1], images[1])
    twice = np.repeat(np.repeat(images, 2, axis=1), 2, axis=2)
    np.testing.assert_array_equal(upright_images(twice, poses)[0], np.roll(twice[0], (2, -4), axis=(0, 1)))
    clouds, half_turn = RANDOM.normal(size=(1, 5, 3)), poses_for(1, quaternions=np.array([[0.0, 0.0, 1.0, 0.0]]))
    np.testing.assert_allclose(upright_images(clouds, half_turn), clouds * [-1, -1, 1], atol=1e-12)
    with pytest.raises(bot.InputError, match="point clouds"):
        upright_images(images[:1], half_turn)


def save(path, pixels, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def opened(path):
    with Image.open(path) as image:
        return image.mode, np.asarray(image)


@pytest.mark.parametrize(
    ("name", "pixels", "mode"),
    [
        ("grey.png", photograph(40, 40), "L"),
        ("deep.png", photograph(40, 40, dtype=np.uint16), "I;16"),
        ("deep.tif", photograph(40, 40, dtype=np.uint16), "I;16"),
        ("float.tiff", photograph(40, 40, dtype=np.float32), "F"),
        ("colour.bmp", photograph(40, 40, channels=(3,)), "RGB"),
    ],
)
def test_files_are_turned_at_their_own_depth_under_their_own_names(tmp_path, name, pixels, mode):
    original = save(tmp_path / "in" / "some class" / name, pixels)
    files, poses = [f"some class/{name}"] * 2, poses_for(2, angles=[90.0, 45.0], ambiguous=[1])
    assert upright_files(poses, tmp_path / "in", files, tmp_path / "out") == {"upright": 1, "ambiguous": 1}
    assert (tmp_path / "out" / "ambiguous" / "some class" / name).read_bytes() == original.read_bytes()
    found, turned = opened(tmp_path / "out" / "upright" / "some class" / name)
    assert found == mode
    np.testing.assert_array_equal(turned, np.rot90(pixels))


def test_hidden_colours_stay_hidden(tmp_path):
    pixels = np.dstack([photograph(30, 30, channels=(3,)), np.full((30, 30), 255, dtype=np.uint8)])
    pixels[:, :4] = [255, 0, 0, 0]  # red, but not to be seen
    save(tmp_path / "some.png", pixels)
    upright_files(poses_for(1, angles=[30.0]), tmp_path, ["some.png"], tmp_path / "out", fill=7)
    mode, turned = opened(tmp_path / "out" / "upright" / "some.png")
    assert mode == "RGBA"
    np.testing.assert_array_equal(turned[0, 0], [7, 7, 7, 255])
    seen = turned[turned[..., 3] > 128]
    assert (np.ptp(seen[:, :3].astype(int), axis=1) < 12).all()  # the red does not shine through


@pytest.mark.parametrize("suffix", ["png", "tif"])
@pytest.mark.parametrize("channels", [3, 4])
def test_colours_of_16_bits_keep_them(tmp_path, suffix, channels):
    pixels = np.array(photograph(20, 20, dtype=np.uint16, channels=(channels,)))
    pixels[..., 3:] = 65535
    encode = imagecodecs.png_encode if suffix == "png" else imagecodecs.tiff_encode
    (tmp_path / f"deep.{suffix}").write_bytes(encode(pixels))
    upright_files(poses_for(1, angles=[90.0]), tmp_path, [f"deep.{suffix}"], tmp_path / "out")
    decode = imagecodecs.png_decode if suffix == "png" else imagecodecs.tiff_decode
    turned = decode((tmp_path / "out" / "upright" / f"deep.{suffix}").read_bytes())
    assert turned.dtype == np.uint16
    np.testing.assert_array_equal(turned, np.rot90(pixels))


def test_palettes_cmyk_and_faxes_are_turned(tmp_path):
    grey = Image.fromarray(photograph(20, 20, channels=(3,)))
    grey.quantize(16).save(tmp_path / "palette.png")
    grey.convert("CMYK").save(tmp_path / "cmyk.tif")
    grey.convert("1").save(tmp_path / "fax.tif", compression="group4")  # cannot hold more than black and white
    files = ["palette.png", "cmyk.tif", "fax.tif"]
    upright_files(poses_for(3, angles=[180.0] * 3), tmp_path, files, tmp_path / "out")
    for file, mode in zip(files, ("RGB", "CMYK", "L"), strict=True):
        found, turned = opened(tmp_path / "out" / "upright" / file)
        with Image.open(tmp_path / file) as original:
            np.testing.assert_array_equal(turned, np.rot90(np.asarray(original.convert(mode)), 2))
        assert found == mode


def test_orientation_of_a_camera_is_applied_once(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise when shown
    exif[0x010E] = "a blot"
    pixels = photograph(20, 30)
    save(tmp_path / "camera.jpg", pixels, exif=exif, quality=95)
    upright_files(poses_for(1, angles=[90.0]), tmp_path, ["camera.jpg"], tmp_path / "out", expand=True)
    with Image.open(tmp_path / "out" / "upright" / "camera.jpg") as image:
        assert np.abs(np.asarray(image).astype(int) - pixels).max() < 12
        assert 0x0112 not in image.getexif()
        assert image.getexif()[0x010E] == "a blot"


def test_what_cannot_be_is_refused(tmp_path):
    save(tmp_path / "a.jpg", photograph(8, 8))
    save(tmp_path / "deep.png", photograph(8, 8, dtype=np.uint16))
    one = poses_for(1, angles=[10.0])
    with pytest.raises(bot.InputError, match="2 files but 1 poses"):
        upright_files(one, tmp_path, ["a.jpg", "deep.png"], tmp_path / "out")
    with pytest.raises(bot.DatasetError, match=r"cannot read the image .*gone.png"):
        upright_files(one, tmp_path, ["gone.png"], tmp_path / "out")
    with pytest.raises(bot.InputError, match="rotations in space"):
        upright_files(poses_for(1, quaternions=np.array([[0, 0, 0, 1.0]])), tmp_path, ["a.jpg"], tmp_path / "out")
