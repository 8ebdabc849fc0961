"""Frames of a match: chosen by evidence, asked for, recorded."""

import warnings

import numpy as np
import pytest
from PIL import Image

import bispectral_ot as bot
from bispectral_ot.features.frame_choice import Evidence, choose


def coin(random: np.random.Generator, kind: int, side: int = 48) -> Image.Image:
    """Textured square whose pattern depends on its class and has no background."""
    y, x = np.indices((side, side)) / side
    waves = np.sin((6 + 5 * kind) * x + random.uniform(0, 0.5)) + np.cos((4 + 3 * kind) * y * x)
    noise = random.normal(0, 0.15, (side, side))
    return Image.fromarray(np.uint8(127 + 50 * (waves + noise).clip(-2, 2)))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place, random = tmp_path_factory.mktemp("frames"), np.random.default_rng(0)
    for kind in range(3):
        for half in ("turned", "enlarged", "target"):
            (place / half / f"class {kind}").mkdir(parents=True)
            for i in range(12):
                image = coin(random, kind)
                if half != "target":
                    options = {"expand": half == "enlarged", "fillcolor": 0}
                    image = image.rotate(random.uniform(0, 360), Image.Resampling.BILINEAR, **options)
                image.save(place / half / f"class {kind}" / f"{i}.png")
    return place


def quiet_match(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bot.match(*arguments, **options)


def accuracy(found):
    return float((found.labels().label == found.source_labels).mean())


def test_auto_keeps_the_canvas_of_images_turned_in_place(folders):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message="frame")
        found = bot.match(folders / "turned", folders / "target")
    assert found.settings["frame"] == ["canvas", "canvas"]
    assert found.settings["frame_divergence"]["canvas"] < 0.02


def test_auto_undoes_an_enlarged_canvas_and_says_so(folders):
    with pytest.warns(bot.DataWarning, match=r"frame '(picture|common)' was chosen .*differ less .*--frame"):
        found = bot.match(folders / "enlarged", folders / "target")
    assert found.settings["frame"] in (["picture", "canvas"], ["common", "common"])
    canvas = quiet_match(folders / "enlarged", folders / "target", frame="canvas")
    assert accuracy(found) > accuracy(canvas)
    assert found.distance < 0.5 * canvas.distance
    assert accuracy(found) > accuracy(quiet_match(folders / "turned", folders / "target")) - 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"frame": "canvass"}, "did you mean 'canvas'"),
        ({"frame": "auto,canvas"}, "for all sets together"),
        ({"frame": "canvas,content,common"}, "3 names for 2 sets"),
        ({"frame": "content"}, "shows content on a background"),
    ],
)
def test_frames_that_cannot_be(folders, options, message):
    with pytest.raises(bot.InputError, match=message):
        quiet_match(folders / "turned", folders / "target", **options)


def test_choice_by_evidence():
    def of(divergence, nearest, recognised=0.8):
        spread = 0.3 * np.random.default_rng(int(1000 * nearest) % 997).normal(size=60)
        return Evidence(divergence, 0.003, nearest + spread, recognised, 0.04)

    canvas = of(0.05, 0.1)
    assert choose({"canvas": canvas, "content": of(0.04, 0.09)}) == "canvas"  # little gain
    assert choose({"canvas": canvas, "content": of(0.04, -0.2)}) == "content"  # sources are nearer, by a paired test
    assert choose({"canvas": canvas, "content": of(0.06, -0.2)}) == "canvas"  # nearer, but the sets differ more
    assert choose({"canvas": canvas, "content": of(0.0, 0.0, 0.3)}) == "canvas"  # labels are lost
    assert choose({"canvas": canvas, "content": of(0.02, 0.2)}) == "canvas"  # more alike, but sources are further away
    assert choose({"canvas": canvas, "content": of(0.002, 0.2)}) == "content"  # the sets agree
    assert choose({"canvas": canvas, "content": of(0.014, 0.2)}) == "content"  # three quarters are explained
    better = {"canvas": canvas, "common": of(0.001, 0.0)}
    assert choose(better) == "common"
    assert choose(better | {"picture": of(0.002, -0.2)}) == "picture"  # nearer targets
