from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.groups import CyclicGroup, DihedralGroup, OctahedralGroup
from bispectral_ot.groups.bispectrum import GroupBispectrum
from bispectral_ot.groups.cyclic import CyclicBispectrum
from group_examples import (
    EXAMPLES,
    example,
    is_translate,
    random_signals,
    same_power_signal,
    slow_bispectrum,
    triple_correlation_bispectrum,
)

COEFFICIENTS = ("full", "selective")


def relative(first, second):
    return np.abs(first - second).max() / np.abs(second).max()


@pytest.mark.parametrize("name", EXAMPLES)
def test_matrices_are_appendix_c_literally(name):
    """Of ``F_rho^H``, the transform of ``f(g^-1)``."""
    group = example(name)
    signals = random_signals(group, 2)
    matrices = GroupBispectrum(group).fit(signals).matrices(signals)
    assert len(matrices) == len(group.irreps) ** 2
    for (r, s), batch in matrices.items():
        for matrix, signal in zip(batch, signals[:, group.inverse], strict=True):
            np.testing.assert_allclose(matrix, slow_bispectrum(group, signal, r, s), atol=1e-10)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_default_has_the_adjoint_of_the_papers_coefficients(name):
    group = example(name)
    signals = random_signals(group, 2)
    bispectrum = GroupBispectrum(group).fit(signals)
    for ours, papers in zip(bispectrum.fourier(signals), group.fourier(signals), strict=True):
        np.testing.assert_allclose(ours, papers.conj().swapaxes(1, 2), atol=1e-12)


@pytest.mark.parametrize("name", EXAMPLES)
def test_matrices_are_the_transform_of_the_triple_correlation(name):
    group = example(name)
    signals = random_signals(group, 1)
    matrices = GroupBispectrum(group).fit(signals).matrices(signals[:, group.inverse])
    r, s = len(group.irreps) - 1, len(group.irreps) // 2
    for pair in [(r, r), (s, r)]:
        expected = triple_correlation_bispectrum(group, signals[0], *pair)
        np.testing.assert_allclose(matrices[pair][0], expected, atol=1e-10)


@pytest.mark.parametrize("name", EXAMPLES)
def test_weighted_distances_are_those_between_the_complete_matrices(name):
    group = example(name)
    signals = random_signals(group, 4)
    bispectrum = GroupBispectrum(group, normalize=False).fit(signals)
    complete = np.concatenate([m.reshape(4, -1) for m in bispectrum.matrices(signals).values()], axis=1)
    features, weights = bispectrum.transform(signals).astype(float), bispectrum.feature_weights_
    assert features.shape[1] < group.order**2 / 2
    for a, b in combinations(range(4), 2):
        expected = np.linalg.norm(complete[a] - complete[b])
        np.testing.assert_allclose(np.sqrt(weights @ (features[a] - features[b]) ** 2), expected, rtol=1e-5)
    np.testing.assert_allclose((features**2) @ weights, np.linalg.norm(complete, axis=1) ** 2, rtol=1e-5)


def test_on_a_cyclic_group_it_is_the_cyclic_bispectrum():
    signals = np.random.default_rng(0).standard_normal((5, 12))
    ours = GroupBispectrum(CyclicGroup(12), normalize=False).fit(signals)
    theirs = CyclicBispectrum(normalize=False).fit(signals)
    assert ours.n_features_out_ == theirs.n_features_out_
    for power, of in [(1, np.abs), (2, np.square)]:
        first = of(np.diff(ours.transform(signals), axis=0)) @ ours.feature_weights_
        second = of(np.diff(theirs.transform(signals), axis=0)) @ theirs.feature_weights_
        np.testing.assert_allclose(first, second, rtol=1e-5, err_msg=f"power {power}")


@pytest.mark.parametrize("coefficients", COEFFICIENTS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_moving_a_signal_changes_nothing(name, coefficients):
    group = example(name)
    signals = random_signals(group, 5)
    bispectrum = GroupBispectrum(group, coefficients=coefficients)
    features = bispectrum.fit_transform(signals)
    assert features.dtype == np.float32
    for element in range(group.order):
        assert relative(bispectrum.transform(group.translate(signals, element)), features) < 1e-6


def test_by_default_it_is_invariant_under_the_translation_of_the_paper():
    """``f(x) -> f(t^-1 x)`` on the permutations of three things, written out."""
    group = example("S_3")
    signal = random_signals(group, 1)[0]
    value = dict(zip(group.elements, signal, strict=True))
    back = (2, 0, 1)  # t^-1
    moved = np.array([value["".join(str(back[int(image)]) for image in x)] for x in group.elements])
    features = GroupBispectrum(group).fit_transform(np.array([signal, moved]))
    assert relative(features[0], features[1]) < 1e-6
    from_the_right = group.translate(signal[group.inverse], 3)[group.inverse]
    features = GroupBispectrum(group).fit_transform(np.array([signal, from_the_right]))
    assert relative(features[0], features[1]) > 1e-3


def signals_to_tell_apart(group):
    """Every signal over a small alphabet; on the larger groups, every one with few places off a constant."""
    if group.order <= 8:
        return np.array(list(product([0.3, 1.0, -0.7], repeat=group.order)))
    if group.order <= 12:
        return np.array(list(product([0.3, 1.0], repeat=group.order)))
    places = np.array(list(combinations(range(group.order), 4)))
    signals = np.full((len(places), group.order), 0.3)
    np.put_along_axis(signals, places[:, :3], 1.0, axis=1)
    np.put_along_axis(signals, places[:, 3:], -0.7, axis=1)
    return signals


def count_distinct(rows, tolerance):
    """Number of clusters of rows, as neighbours in the order of a random projection."""
    direction = np.random.default_rng(0).standard_normal(rows.shape[1])
    rows = rows[np.argsort(rows @ direction, kind="stable")]
    return 1 + int((np.abs(np.diff(rows, axis=0)).max(axis=1) > tolerance).sum())


@pytest.mark.parametrize("coefficients", COEFFICIENTS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_only_moved_signals_have_equal_bispectra(name, coefficients):
    group = example(name)
    signals = signals_to_tell_apart(group)
    smallest = [np.linalg.svd(part, compute_uv=False)[:, -1] for part in group.fourier(signals)]
    signals = signals[np.min(smallest, axis=0) > 1e-6]  # completeness needs invertible Fourier coefficients
    assert len(signals) > 400
    moved = [group.translate(signals, element) for element in range(group.order)]
    first_of_orbit = np.array(sorted({min(map(tuple, orbit)) for orbit in zip(*moved, strict=True)}))
    features = (
        GroupBispectrum(group, coefficients=coefficients, normalize=False).fit_transform(first_of_orbit).astype(float)
    )
    assert len(first_of_orbit) < len(signals)
    assert count_distinct(features / np.abs(features).max(), 1e-6) == len(first_of_orbit)


@pytest.mark.parametrize("name", EXAMPLES)
def test_equal_power_spectra_but_different_bispectra(name):
    group = example(name)
    first = random_signals(group, 1)[0]
    candidates = (same_power_signal(group, first, seed=seed) for seed in range(20))
    second = next(signal for signal in candidates if not is_translate(group, first, signal))
    pair = np.array([first, second])
    power = [np.concatenate([(F.conj().T @ F).ravel() for F in group.fourier(each)]) for each in pair]
    assert relative(power[0], power[1]) < 1e-6
    for coefficients in COEFFICIENTS:
        bispectra = GroupBispectrum(group, coefficients=coefficients).fit_transform(pair)
        assert relative(bispectra[0], bispectra[1]) > 1e-4


@pytest.mark.parametrize("name", EXAMPLES)
def test_selective_bispectra_are_inverted(name):
    group = example(name)
    signals = random_signals(group, 8, seed=3)
    bispectrum = GroupBispectrum(group, coefficients="selective", normalize=False)
    full = GroupBispectrum(group).fit(signals)
    recovered = bispectrum.invert(bispectrum.fit_transform(signals))
    assert bispectrum.n_features_out_ <= full.n_features_out_
    for before, after in zip(signals, recovered, strict=True):
        assert is_translate(group, after, before)
    bispectrum.set_params(normalize=True)  # the signals but for their scale
    for before, after in zip(signals[:2], bispectrum.invert(bispectrum.fit_transform(signals[:2])), strict=True):
        assert is_translate(group, after * (before.sum() / after.sum()), before)


def test_the_selective_set_grows_like_the_group():
    for group, bound in [(CyclicGroup(60), 1.5), (DihedralGroup(30), 2.7), (OctahedralGroup(), 3.5)]:
        signals = random_signals(group, 1)
        selective = GroupBispectrum(group, coefficients="selective").fit(signals)
        assert selective.n_features_out_ <= bound * group.order
    assert set(selective.index_map_["r"]) == {0, 3}


@pytest.mark.parametrize("name", ["Z/8", "D_4", "O"])
def test_inversion_says_what_it_cannot_divide_by(name):
    group = example(name)
    signal = random_signals(group, 1)
    bispectrum = GroupBispectrum(group, coefficients="selective").fit(signal)
    coefficients = group.fourier(signal)
    gone = [0 * part if irrep == 2 else part for irrep, part in enumerate(coefficients)]
    if name == "Z/8":
        gone[6] = 0 * gone[6]  # the conjugate irrep
    without = group.inverse_fourier(gone).real
    with pytest.raises(InputError, match=r"signal 0 .* irrep 2 is zero or nearly singular"):
        bispectrum.invert(bispectrum.transform(without))
    with pytest.raises(InputError, match="its mean is zero"):
        bispectrum.invert(bispectrum.transform(signal - signal.mean()))


def test_a_singular_coefficient_is_no_noise_either():
    group = DihedralGroup(4)
    lifted = np.tile(np.random.default_rng(0).random((1, 4)), 2)  # the same on both cosets of the turns
    bispectrum = GroupBispectrum(group, coefficients="selective").fit(lifted)
    with pytest.raises(InputError, match="nearly singular"):
        bispectrum.invert(bispectrum.transform(lifted))


def test_features_that_are_no_bispectra_are_refused():
    group = DihedralGroup(4)
    signals = random_signals(group, 1)
    bispectrum = GroupBispectrum(group, coefficients="selective").fit(signals)
    features = bispectrum.transform(signals) * np.linspace(1, 2, bispectrum.n_features_out_)
    with pytest.raises(InputError, match="cannot be recovered"):
        bispectrum.invert(features)
    with pytest.raises(InputError, match="finite features of shape"):
        bispectrum.invert(features[:, 1:])
    with pytest.raises(InputError, match="only selective"):
        GroupBispectrum(group).fit(signals).invert(features)


def test_it_is_a_scikit_learn_transformer():
    group = DihedralGroup(4)
    signals = random_signals(group, 10)
    pipeline = make_pipeline(GroupBispectrum(group), StandardScaler())
    assert pipeline.fit_transform(signals).shape == (10, 15)
    copy = clone(pipeline[0])
    assert copy.group is group
    names = copy.fit(signals).get_feature_names_out()
    assert names[0] == "r0_s0_t0_copy0_i0_j0_k0_part0"
    assert len(set(names)) == 15


def test_bad_input_is_refused():
    group = DihedralGroup(4)
    with pytest.raises(InputError, match="8 elements"):
        GroupBispectrum(group).fit(np.zeros((2, 7)))
    with pytest.raises(InputError, match="must be a FiniteGroup"):
        GroupBispectrum("D_4").fit(np.zeros((2, 8)))
    with pytest.raises(InputError, match="unknown coefficients 'some'; choose one of full, selective"):
        GroupBispectrum(group, coefficients="some").fit(np.zeros((2, 8)))
    with pytest.raises(InputError, match="the range of float32"):
        GroupBispectrum(group, normalize=False).fit_transform(np.full((2, 8), 1e15))


def test_normalized_bispectra_forget_the_scale_and_blank_signals_are_reported():
    group = DihedralGroup(4)
    signals = random_signals(group, 2)
    bispectrum = GroupBispectrum(group).fit(signals)
    features = bispectrum.transform(signals)
    np.testing.assert_allclose(features**2 @ bispectrum.feature_weights_, 1, rtol=1e-5)
    np.testing.assert_allclose(bispectrum.transform(1e15 * signals), features, rtol=1e-5)
    with pytest.warns(DataWarning, match="1 of 1 signals"):
        assert not bispectrum.transform(np.zeros((1, 8))).any()


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("transformer", [GroupBispectrum(CyclicGroup(8)), CyclicBispectrum()])
def test_rounding_is_not_scaled_up_to_features(transformer, normalize):
    """A pure cosine has no two frequencies whose sum it has, too: its bispectrum is zero but for rounding."""
    cosine = np.cos(2 * np.pi * np.arange(8) / 8 + 0.3)
    shifts = np.array([np.roll(cosine, shift) for shift in range(8)])
    with pytest.warns(DataWarning, match="8 of 8 signals"):
        assert not clone(transformer).set_params(normalize=normalize).fit_transform(shifts).any()


@pytest.mark.parametrize("transformer", [GroupBispectrum(CyclicGroup(8))])
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_what_float32_cannot_hold_is_said(transformer, scale):
    signals = scale * random_signals(CyclicGroup(8), 2)
    with pytest.raises(InputError, match="range of float32"):
        clone(transformer).set_params(normalize=False).fit_transform(signals)
