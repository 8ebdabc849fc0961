"""The names that options take: one list for the library, the program and its help texts; nothing heavy is loaded."""

from __future__ import annotations

from typing import Literal

Split = Literal["train", "val", "test"]
Symmetry = Literal[
    "rotation",
    "rotation-reflection",
    "rotation-translation",
    "rotation-reflection-translation",
    "translation",
    "d4",
    "so3",
    "so3-shapes",
    "none",
]
FeatureName = Literal[
    "combined-bispectrum",
    "coupled-bispectrum",
    "local-bispectrum",
    "ring-bispectrum",
    "aligned",
    "ring-power",
    "translation-bispectrum",
    "d4-bispectrum",
    "sphere-bispectrum",
    "shell-bispectrum",
    "pixels",
]
Metric = Literal["l1", "l2", "sqeuclidean", "cosine"]
Intensity = Literal["ignore", "keep"]
Storage = Literal["float32", "compact", "recompute"]
SolverName = Literal["sinkhorn", "greenkhorn", "exact"]
Marginals = Literal["balanced", "relaxed", "estimated"]
