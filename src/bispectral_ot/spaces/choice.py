"""What a comparison looks at: features and metric, checked together before any work is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from bispectral_ot.checks import check_choice
from bispectral_ot.costs import Metric
from bispectral_ot.costs.aligned import check_aligned_metric
from bispectral_ot.errors import InputError
from bispectral_ot.invariants import Transformer, make_features
from bispectral_ot.invariants.names import DEFAULT_FEATURES


@dataclass(frozen=True)
class FeatureChoice:
    """Features and a metric that can be taken between them.

    Attributes
    ----------
    transformer : not fitted yet
    name : of the features, for reports
    symmetry : that the features do not see, as far as it is known
    metric : of the distances
    """

    transformer: Transformer
    name: str
    symmetry: str | None
    metric: Metric

    @property
    def aligns(self) -> bool:
        """Whether every pair is turned to its best fit, instead of being compared as it is."""
        return self.transformer.aligns

    def check_components(self, pca: Any, n_columns: int) -> None:
        """Refuse a number of principal components that cannot be."""
        if self.aligns:
            raise InputError("principal components cannot be turned to fit; leave pca out, or take coupled-bispectrum.")
        if pca > n_columns:
            raise InputError(f"pca must be between 1 and the {n_columns} columns of the features, got {pca}.")


# The symmetry that a kind of datasets has, where neither it nor features are asked for.
_SYMMETRY_OF_KIND = {"images": "rotation", "sphere": "so3", "clouds": "so3-shapes", "volumes": "so3-shapes"}


def choose_features(
    features: Any = None,
    *,
    symmetry: str | None = None,
    metric: Metric | str | None = None,
    kind: str = "images",
    intensity: str | None = None,
) -> FeatureChoice:
    """Resolve names and defaults; see :func:`~bispectral_ot.match` for the parameters.

    ``kind`` is that of the datasets, which decides on the symmetry where neither it nor features are given.

    Examples
    --------
    >>> choose_features(symmetry="rotation").metric
    'sqeuclidean'
    """
    if features is None:
        symmetry = symmetry or _SYMMETRY_OF_KIND[kind]
    transformer = make_features(features, symmetry=symmetry, intensity=intensity)
    if features is None:
        features = DEFAULT_FEATURES[str(symmetry)]
    metric = metric or transformer.default_metric
    if transformer.aligns:
        metric = check_aligned_metric(metric)
    return FeatureChoice(
        transformer,
        name=features if isinstance(features, str) else type(features).__name__,
        symmetry=transformer.symmetry or symmetry,
        metric=cast(Metric, check_choice("metric", metric, transformer.metrics)),
    )
