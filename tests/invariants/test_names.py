"""Names and defaults of features."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA

from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.invariants import (
    DEFAULT_FEATURES,
    FEATURES,
    CoupledBispectrum,
    Pixels,
    RingBispectrum,
    TranslationBispectrum,
    make_features,
)
from bispectral_ot.invariants.names import symmetry_of


@pytest.mark.parametrize("name", FEATURES)
def test_names(name: str) -> None:
    assert type(make_features(name)) is FEATURES[name]


@pytest.mark.parametrize(
    ("symmetry", "kind"),
    [
        ("none", Pixels),
        ("rotation", CoupledBispectrum),
        ("rotation-reflection", CoupledBispectrum),
        ("translation", TranslationBispectrum),
    ],
)
def test_the_default_follows_the_symmetry(symmetry: str, kind: type) -> None:
    assert type(make_features(symmetry=symmetry)) is kind
    assert set(DEFAULT_FEATURES.values()) <= set(FEATURES)


@pytest.mark.parametrize("name", ["coupled-bispectrum", "aligned"])
def test_features_that_know_mirrors_are_told_the_symmetry(name: str) -> None:
    for symmetry in ("rotation", "rotation-reflection"):
        assert make_features(name, symmetry=symmetry).symmetry == symmetry
    assert make_features(name).symmetry == "rotation"


@pytest.mark.parametrize(
    ("name", "symmetry", "advice"),
    [
        ("aligned", "none", "pixels"),
        ("ring-power", "translation", "translation-bispectrum"),
        ("ring-bispectrum", "rotation-reflection", "coupled-bispectrum, aligned, ring-power"),
        ("pixels", "rotation", "coupled-bispectrum, aligned, ring-bispectrum"),
        (RingBispectrum(), "d4", "d4-bispectrum"),
    ],
)
def test_a_symmetry_that_the_features_do_not_have_is_told(name: Any, symmetry: str, advice: str) -> None:
    with pytest.warns(DataWarning, match=f"but '{symmetry}' is asked for. .* that have it are: {advice}[.]"):
        features = make_features(name, symmetry=symmetry)
    assert symmetry_of(features) != symmetry


def test_what_sees_neither_mirrors_nor_rotations_has_rotation() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_features("ring-power", symmetry="rotation")


def test_features_tell_their_symmetry() -> None:
    told = {name: symmetry_of(make_features(name)) for name in FEATURES}
    assert told["pixels"] == "none"
    assert told["coupled-bispectrum"] == told["aligned"] == told["ring-bispectrum"] == "rotation"
    for symmetry in DEFAULT_FEATURES:
        assert symmetry_of(make_features(symmetry=symmetry)) == symmetry
    assert symmetry_of(PCA()) is None


@pytest.mark.parametrize("name", ["ring-power", "ring-bispectrum"])
def test_only_the_power_of_rings_does_not_see_mirrors(name: str) -> None:
    images = np.random.default_rng(0).normal(size=(4, 9, 9))
    transformer = make_features(name).set_params(sampling="bilinear").fit(images)
    first, mirrored = transformer.transform(images), transformer.transform(images[:, :, ::-1])
    reflected = symmetry_of(transformer) == "rotation-reflection"
    assert np.allclose(first, mirrored, rtol=1e-3, atol=1e-3) == reflected


def test_a_transformer_is_taken_as_it_is() -> None:
    for transformer in (RingBispectrum(n_angles=20), PCA()):
        assert make_features(transformer, symmetry="rotation") is transformer


def test_unknown_names_get_suggestions() -> None:
    with pytest.raises(InputError, match="did you mean 'ring-bispectrum'"):
        make_features("ring-bispectrm", symmetry="rotation")
    with pytest.raises(InputError, match="did you mean 'rotation'"):
        make_features(symmetry="rotations")
    with pytest.raises(InputError, match=r"unknown features 'xyz'; choose one of pixels, coupled-bispectrum"):
        make_features("xyz", symmetry="none")
    for wrong in (RingBispectrum, 3):
        with pytest.raises(InputError, match="a name or a transformer"):
            make_features(wrong, symmetry="rotation")
