"""Frames of a match: chosen by evidence, asked for, recorded."""

import numpy as np
import pytest
from PIL import Image

import bispectral_ot as bot
from bispectral_ot.features.frame_choice import Evidence, choose, clarity

pytestmark = pytest.mark.filterwarnings("ignore::bispectral_ot.DataWarning")


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
                    image = image.rotate(random.uniform(0, 360), Image.Resampling.BILINEAR, expand=half == "enlarged")
                image.save(place / half / f"class {kind}" / f"{i}.png")
    return place


def accuracy(found):
    return float((found.labels().label == found.source_labels).mean())


@pytest.mark.filterwarnings("error:frame")
def test_auto_keeps_the_canvas_of_images_turned_in_place(folders):
    found = bot.match(folders / "turned", folders / "target")
    assert found.settings["frame"] == ["canvas", "canvas"]
    assert found.settings["frame_divergence"]["canvas"] < 0.02


def test_auto_undoes_an_enlarged_canvas_and_says_so(folders):
    with pytest.warns(bot.DataWarning, match=r"frame '(picture|common)' was chosen .*clearest .*--frame"):
        found = bot.match(folders / "enlarged", folders / "target")
    assert found.settings["frame"] in (["picture", "canvas"], ["common", "common"])
    canvas = bot.match(folders / "enlarged", folders / "target", frame="canvas")
    assert accuracy(found) > accuracy(canvas)
    assert found.distance < 0.5 * canvas.distance
    assert accuracy(found) > accuracy(bot.match(folders / "turned", folders / "target")) - 0.1


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
        bot.match(folders / "turned", folders / "target", **options)


def test_choice_by_evidence():
    random = np.random.default_rng(0)

    def of(divergence, clarity):
        return Evidence(divergence, 0.003, random.normal(clarity, 0.3, 60))

    canvas = of(0.02, -1.0)
    assert choose({"canvas": canvas, "content": of(0.02, -0.95)}) == "canvas"  # within the noise
    assert choose({"canvas": canvas, "content": of(0.02, -0.7)}) == "content"  # clearer by a paired test
    assert choose({"canvas": canvas, "content": of(0.01, -0.9)}) == "content"  # clearer, and the sets differ less
    assert choose({"canvas": canvas, "content": of(0.03, -0.7)}) == "canvas"  # clearer, but the sets differ more
    assert choose({"canvas": canvas, "content": of(0.0, -1.2)}) == "canvas"  # the sets agree in what tells nothing
    assert choose({"canvas": canvas, "common": of(0.001, -0.7), "picture": of(0.002, -0.5)}) == "picture"
    assert choose({"canvas": canvas, "common": of(0.001, -0.7), "picture": of(0.008, -0.5)}) == "common"


def test_clarity_is_that_of_the_balanced_plan():
    costs = np.random.default_rng(0).uniform(0.5, 1.5, (12, 12))
    plan = bot.Sinkhorn(reg=0.02 / costs.max(), tol=1e-8).solve(bot.Cost.from_matrix(costs)).to_dense()
    np.testing.assert_allclose(clarity(costs), np.log(plan.max(axis=1) / plan.sum(axis=1)), atol=0.02)
    hub = costs - 0.4 * (np.arange(12) == 0)  # one target near to all sources is no counterpart of all
    np.testing.assert_allclose(clarity(hub), clarity(costs), atol=0.02)


def test_margins_of_both_sets_are_cut_off(folders):
    with pytest.warns(bot.DataWarning, match="'picture' was chosen for enlarged, enlarged: most images have a margin"):
        found = bot.match(folders / "enlarged", folders / "enlarged")
    assert found.settings["frame"] == ["picture", "picture"]
