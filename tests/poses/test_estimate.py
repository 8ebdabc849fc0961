"""Votes of several targets, and what is learnt about how far they can be trusted."""

import warnings

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot import features
from bispectral_ot.datasets import rotate
from bispectral_ot.poses import estimate_poses, find_motions
from bispectral_ot.poses.estimate import LEAST_PROBABILITY, Calibration, Votes, vote
from bispectral_ot.poses.motions import TOLERANCE, OrbitMotions, PlanarMotions, wrapped


@pytest.fixture(scope="module")
def turned_digits():
    """Digits turned by known angles, matched with upright ones."""
    source, target = bot.split_halves(bot.load("digits"), seed=0, per_class=60)
    degrees = np.random.default_rng(5).uniform(0, 360, len(source))
    return bot.match(rotate(source, degrees), target), degrees


def errors(poses, degrees):
    return np.abs(wrapped(poses.angles + degrees))


def test_poses_of_digits_are_found_and_their_uncertainty_holds(turned_digits):
    match, degrees = turned_digits
    poses = match.poses()
    wrong_by, certain = errors(poses, degrees), ~poses.ambiguous
    assert np.median(wrong_by) < 9
    assert (wrong_by <= 30).mean() > 0.8
    assert 0.5 < certain.mean() < 1
    assert (wrong_by[certain] <= poses.uncertainty[certain]).mean() > 0.8  # 8 x 8 pixels
    # scores are probabilities of being right
    assert abs(poses.scores.mean() - (wrong_by <= TOLERANCE).mean()) < 0.07
    assert (wrong_by[certain] <= TOLERANCE).mean() > (wrong_by[~certain] <= TOLERANCE).mean() + 0.1
    assert "600 sources" in repr(poses)
    assert len(poses) == 600


def test_poses_do_not_depend_on_blocks_and_order(turned_digits, monkeypatch):
    match, _ = turned_digits
    motions, top = find_motions("rotation", match.source.images), match.top_matches(5)
    images = match.source.images, match.target.images
    whole = estimate_poses(motions, images, top)
    monkeypatch.setattr("bispectral_ot.poses.estimate._BATCH", 100)
    monkeypatch.setattr("bispectral_ot.poses.estimate._BLOCK_BYTES", 2**16)
    parts = estimate_poses(motions, images, top)
    np.testing.assert_allclose(parts.angles, whole.angles, atol=1e-6)


def test_the_winner_maximizes_the_weighted_fit_over_all_angles(turned_digits):
    match, _ = turned_digits
    images, others = match.source.images[:20], match.target.images
    motions = find_motions("rotation", images)
    source, target, top = motions.coefficients(images), motions.coefficients(others), match.top_matches(4)
    votes = vote(None, source, top.indices[:20], top.weights[:20], target, motions)
    frequency, part = (motions.spectrum.index_map_[name] for name in ("frequency", "part"))
    for i, chosen in enumerate(top.indices[:20]):
        # literally: turn the coefficients of the source to every tenth of a degree, and take inner products
        angles, x = np.radians(np.arange(0, 360, 0.1)), source[i, part == 0] + 1j * source[i, part == 1]
        y = target[chosen][:, part == 0] + 1j * target[chosen][:, part == 1]
        turns = np.exp(1j * np.outer(angles, frequency[part == 0]))
        fits = ((turns * x) @ y.conj().T).real
        weights = np.sqrt(top.weights[i]) * (1 - fits.max(axis=0)) ** -3.0
        pooled = fits @ weights / weights.sum()
        assert abs(wrapped(votes.motions[i, 0] - np.degrees(angles[pooled.argmax()]))) < 0.1
        assert votes.fits[i] == pytest.approx(pooled.max(), abs=1e-4)
        np.testing.assert_allclose(votes.weights[i], weights / weights.sum(), rtol=1e-2)
        own = wrapped(np.degrees(angles[fits.argmax(axis=0)]))
        assert np.abs(wrapped(votes.by_target[i, :, 0] - own)).max() < 0.1
        agrees = np.abs(wrapped(own - votes.motions[i, 0])) <= TOLERANCE
        assert votes.agreement[i] == pytest.approx(agrees.mean())
        assert votes.support[i] == pytest.approx(votes.weights[i] @ agrees)


def test_blank_images_and_sources_without_mass_have_no_pose():
    source, target = bot.split_halves(bot.load("digits"), per_class=10)
    images, others = source.images.copy(), target.images.copy()
    images[3] = others[:2] = 0
    weights = np.ones(len(images)) / (len(images) - 1)
    weights[5] = 0
    with warnings.catch_warnings(action="ignore", category=bot.DataWarning):
        poses = bot.match(images, others, source_weights=weights).poses()
    assert np.flatnonzero(~poses.found).tolist() == [3, 5]
    assert np.isnan(poses.angles[[3, 5]]).all()
    assert poses.ambiguous[[3, 5]].all()
    assert np.isfinite(np.delete(poses.angles, [3, 5])).all()


@pytest.mark.parametrize("symmetry", ["rotation-reflection", "d4", "translation"])
def test_other_symmetries_of_a_match_give_their_own_poses(symmetry):
    source, target = bot.split_halves(bot.load("digits"), per_class=20)
    poses = bot.match(source, target, symmetry=symmetry).poses()
    assert (poses.mirrored is None) == (symmetry == "translation")
    assert (poses.shifts is None) == (symmetry != "translation")
    if symmetry == "translation":
        assert np.median(np.linalg.norm(poses.shifts, axis=1)) < 1
        assert (poses.uncertainty < 8).all()
    else:
        assert (~poses.mirrored & (np.abs(poses.angles) <= 30)).mean() > 0.6
    if symmetry == "d4":
        assert set(poses.angles) <= {-90.0, 0.0, 90.0, 180.0}


@pytest.mark.filterwarnings("ignore::bispectral_ot.errors.DataWarning")
@pytest.mark.parametrize("joined", [False, True])
def test_poses_through_the_orbit_of_an_encoder(monkeypatch, joined):
    source, target = bot.split_halves(bot.load("digits"), per_class=20)
    degrees = np.random.default_rng(5).uniform(0, 360, len(source))
    filters = np.random.default_rng(0).normal(size=(64, 40)) / 16
    orbit = features.Orbit(lambda batch: np.tanh(batch[..., 0].reshape(len(batch), -1) @ filters), "C8")
    match = bot.match(rotate(source, degrees), target, features=features.Join("bispectrum", orbit) if joined else orbit)
    found = errors(match.poses(), degrees)
    assert isinstance(find_motions("rotation", source.images, match.feature_map.transformer), OrbitMotions)
    monkeypatch.setattr("bispectral_ot.poses.motions.OrbitMotions", lambda spectrum, _: PlanarMotions(spectrum))
    by_images = errors(match.poses(), degrees)
    assert (found <= TOLERANCE).mean() >= (by_images <= TOLERANCE).mean() - 0.03 > 0.5


def test_poses_that_are_undefined_say_what_to_do(turned_digits):
    match, _ = turned_digits
    with pytest.raises(bot.InputError, match="features without a symmetry; name another"):
        bot.match(np.ones((2, 4, 4)) * np.arange(4), np.ones((2, 4, 4)) * np.arange(4), symmetry="none").poses()
    words = "needs a Dataset of the kind sphere, but the kind of this one is 'images'"
    with pytest.raises(bot.InputError, match=words):
        match.poses(symmetry="so3")
    with pytest.raises(bot.InputError, match="k must be"):
        match.poses(0)


def votes_with(margins, agreement, widths):
    n = len(margins)
    rest = np.zeros((n, 2))
    return Votes(rest, rest, np.zeros(n), widths, margins, agreement, agreement, rest, rest)


def test_calibration_learns_probabilities_and_quantiles():
    random = np.random.default_rng(0)
    margins, widths = random.normal(size=4000), random.uniform(1, 10, 4000)
    right = random.random(4000) < 1 / (1 + np.exp(-2 * margins - 1))
    votes = votes_with(margins, np.full(4000, 0.5), widths)
    wrong_by = np.where(right, widths * random.random(4000), random.uniform(31, 180, 4000))
    scores, uncertainty, ambiguous = Calibration.fit(votes, wrong_by)(votes)
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(-2 * margins - 1)), atol=0.05)
    certain = scores >= LEAST_PROBABILITY
    np.testing.assert_array_equal(ambiguous, ~certain)
    assert (wrong_by <= uncertainty)[certain].mean() == pytest.approx(0.9, abs=0.01)


def test_calibration_needs_enough_votes_and_two_outcomes():
    votes = votes_with(np.linspace(-1, 1, 50), np.ones(50), np.ones(50))
    assert Calibration.fit(votes, np.full(50, np.nan)).classifier is None
    assert Calibration.fit(votes, np.ones(50))(votes)[0][0] == pytest.approx(51 / 52)
    _, uncertainty, ambiguous = Calibration.fit(votes, np.full(50, 100.0))(votes)
    assert ambiguous.all()
    assert (uncertainty == 100).all()
    _, uncertainty, ambiguous = Calibration(None)(votes)
    np.testing.assert_array_equal(ambiguous, votes.margins < np.log(1.1))
    assert np.isnan(uncertainty).all()


def test_poses_of_a_best_rotation_match_have_mirrors_where_they_are_asked_for():
    digits = bot.load("digits")
    source, target = digits.select(np.arange(40)), digits.select(np.arange(40, 80))
    match = bot.match(source.images[:, :, ::-1], target.images, features="best-rotation")
    assert match.poses().mirrored is None
    assert match.poses(symmetry="rotation-reflection").mirrored.any()
