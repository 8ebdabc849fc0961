"""Frames of a match: chosen by evidence, asked for, recorded."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import bispectral_ot as bot
from bispectral_ot.features.frame_choice import evidence, kept_classes, log_plan

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


def test_auto_leaves_filled_corners_of_images_turned_in_place_out(folders):
    found = bot.match(folders / "turned", folders / "target")
    assert found.settings["frame"] == ["picture", "canvas"]
    assert found.settings["frame_divergence"]["picture"] < 0.02
    assert found.labels().file.tolist() == list(found.source.files)


def test_auto_undoes_an_enlarged_canvas_and_says_so(folders):
    with pytest.warns(bot.DataWarning, match=r"'(picture|common)' was chosen .*matched to sources .*--frame"):
        found = bot.match(folders / "enlarged", folders / "target")
    assert found.settings["frame"] in (["picture", "canvas"], ["common", "common"])
    canvas = bot.match(folders / "enlarged", folders / "target", frame="canvas")
    right = [(each.labels().label == each.source_labels).mean() for each in (found, canvas)]
    assert right[0] >= right[1]
    assert found.distance < 0.5 * canvas.distance
    source = bot.load(folders / "enlarged")  # in memory, where the match places it, and so does a prediction
    placed = bot.match(source, folders / "target", frame="picture,canvas")
    for one, images in (found, folders / "enlarged"), (found, found.source), (placed, source), (placed, source.images):
        np.testing.assert_allclose(one.predict(images).probabilities, one.labels().probability, atol=1e-3)
    with pytest.warns(bot.DataWarning, match="if they were resized, give files"):
        bot.match(source, folders / "target", frame="common").predict(source.images)
    model = bot.LabelTransfer().fit(source)  # without the corners, of new images as well
    np.testing.assert_allclose(*map(model.predict_proba, (source, model.match_.source)), atol=1e-3)


def test_frames_that_cannot_be(folders):
    wrong = {"canvass": "did you mean 'canvas'", "auto,canvas": "for all sets together"}
    wrong |= {"canvas,content,common": "3 names for 2 sets", "content": "shows content on a background"}
    for frame, message in wrong.items():
        with pytest.raises(bot.InputError, match=message):
            bot.match(folders / "turned", folders / "target", frame=frame)


def test_plan_is_balanced():
    costs = np.random.default_rng(0).uniform(0.5, 1.5, (12, 12))
    plan = bot.Sinkhorn(reg=0.02 / costs.max(), tol=1e-8).solve(bot.Cost.from_matrix(costs)).to_dense()
    np.testing.assert_allclose(np.exp(log_plan(costs)), 12 * plan, atol=0.01)
    hub = costs - 0.4 * (np.arange(12) == 0)  # one target near to all sources is no counterpart of all
    np.testing.assert_allclose(np.exp(log_plan(hub)), np.exp(log_plan(costs)), atol=0.02)


def test_classes_are_kept_by_way_of_the_sources():
    random, labels = np.random.default_rng(0), np.repeat(np.arange(4), 3)
    plan = np.log(random.uniform(size=(10, 12)))
    shares, total = np.exp(plan), 0.0
    for j, others in enumerate(~np.eye(12, dtype=bool)):
        own = shares[:, others & (labels == labels[j])].sum(axis=1) / shares[:, others].sum(axis=1)
        total += shares[:, j] / shares[:, j].sum() @ own
    assert kept_classes(plan, labels) == pytest.approx(total / 12)
    # a source next to one target in every way, as a copy of it is: the others still tell its class
    assert kept_classes(plan + 900 * np.eye(10, 12), labels) == pytest.approx(kept_classes(plan, labels), abs=0.3)
    assert kept_classes(np.zeros((10, 12)), labels) == pytest.approx(2 / 11)


def test_labels_outweigh_what_single_images_have():
    random, labels = np.random.default_rng(0), np.repeat(np.arange(6), 8)
    noise, found = random.normal(0, 0.3, (96, 6)), []
    for traits in (4 * random.normal(size=(48, 6)), np.eye(6)[labels]):
        rows = np.tile(traits, (2, 1)) + noise
        distances = np.linalg.norm(rows[:, None] - rows, axis=2)
        found.append([evidence(distances, 48, known).score for known in (None, labels)])
    assert found[0][0] > found[1][0]  # clearer
    assert found[0][1] < 0.3 < 0.6 < found[1][1]


def test_margins_of_both_sets_are_cut_off(folders):
    with pytest.warns(bot.DataWarning, match="'picture' was chosen for enlarged, enlarged: most images have a margin"):
        found = bot.match(folders / "enlarged", folders / "enlarged")
    assert found.settings["frame"] == ["picture", "picture"]


def test_predictions_leave_out_filled_corners_that_the_match_had_not(folders):
    source, target = (bot.load(folders / name) for name in ("turned", "target"))
    match = bot.match(*(bot.Dataset(each.images, each.labels, classes=each.classes) for each in (source, target)))
    with pytest.warns(bot.DataWarning, match="filled by an editor, unlike those of the match; the filled"):
        found = match.predict(folders / "enlarged")  # a quarter of the labels were right, without a warning
    assert np.mean([file.startswith(name) for file, name in zip(found.details.file, found.labels, strict=True)]) > 0.9
    with pytest.warns(bot.DataWarning, match="give at least 8 such images together"):
        match.predict(pd.DataFrame({"file": sorted((folders / "enlarged").glob("*/*"))[:5]}))
    whole = bot.match(folders / "enlarged", folders / "target", symmetry="similarity")  # no frame is chosen for it
    np.testing.assert_array_equal(whole.predict(folders / "enlarged").labels, whole.labels().label)  # 2 in 3 before
