"""Values of options, as literal types."""

from __future__ import annotations

import re
from typing import Literal, get_args

Split = Literal["train", "val", "test"]
_Flat = Literal["rotation", "rotation-reflection", "rotation-translation", "rotation-reflection-translation"]
_More = Literal["similarity", "similarity-reflection", "translation", "d4", "mirrors", "quarter-turns"]
Symmetry = Literal[_Flat, _More, "so3", "so3-shapes", "none"]
_Rotation = Literal["bispectrum", "global-bispectrum", "local-bispectrum", "ring-bispectrum", "best-rotation"]
_Others = Literal[
    "translation-bispectrum", "d4-bispectrum", "image-bispectrum", "sphere-bispectrum", "shell-bispectrum"
]
FeatureName = Literal[_Rotation, _Others, "pixels", "vectors"]
Frame = Literal["canvas", "picture", "content", "common"]
FRAMES: tuple[Frame, ...] = get_args(Frame)
Metric = Literal["l1", "l2", "sqeuclidean", "cosine"]
METRICS: tuple[Metric, ...] = get_args(Metric)
Intensity = Literal["ignore", "keep"]
Storage = Literal["float32", "compact", "recompute"]
SolverName = Literal["sinkhorn", "exact"]
Marginals = Literal["balanced", "relaxed", "estimated"]


def is_feature_expression(text: str) -> bool:
    """Whether text is an expression of features: names joined by ``+``, encoders, or files of vectors."""
    return bool({"+", ":"} & set(text)) or text.endswith(".onnx") or bool(vector_files(text))


def vector_files(text: object) -> list[str]:
    """Files of vectors that text names, such as ``a.npy,b.h5ad:X_pca``; none where it is something else."""
    parts = text.split(",") if isinstance(text, str) else [""]
    return parts if all(re.fullmatch(r".+\.(npy|npz|parquet|h5|hdf5|h5ad)(:.*)?", part) for part in parts) else []
