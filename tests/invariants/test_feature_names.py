"""Names and defaults of features."""

from __future__ import annotations

import pytest
from sklearn.decomposition import PCA

from bispectral_ot.errors import InputError
from bispectral_ot.invariants import (
    DEFAULT_FEATURES,
    FEATURES,
    CoupledBispectrum,
    Pixels,
    RingBispectrum,
    TranslationBispectrum,
    make_features,
)


@pytest.mark.parametrize("name", FEATURES)
def test_names(name: str) -> None:
    assert type(make_features(name, symmetry="none")) is FEATURES[name]


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
    assert make_features(name, symmetry="none").symmetry == "rotation"


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
