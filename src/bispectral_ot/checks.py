"""Values of options as literal types, argument validation with suggestions, and text that is safe to print."""

import difflib
import numbers
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from bispectral_ot.errors import InputError

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
Intensity = Literal["ignore", "keep", "affine"]
Storage = Literal["float32", "compact", "recompute"]
SolverName = Literal["sinkhorn", "exact"]
Marginals = Literal["balanced", "relaxed", "estimated"]
# Control characters, ends of lines and paragraphs, changes of writing direction, and bytes that are not UTF-8.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: object) -> str:
    """Text with an escape for each control character, change of writing direction, and byte that is not UTF-8."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def detached(data: Any) -> Any:
    """Tensor of PyTorch on the CPU without its gradient (bfloat16 as float32); anything else unchanged."""
    if not (hasattr(data, "detach") and hasattr(data, "requires_grad")):
        return data
    plain = data.detach().cpu()
    return plain.float() if "bfloat16" in str(plain.dtype) else plain


def advise(name: Any, known: Iterable[str]) -> str:
    """Advice for an error about an unknown name: the closest known names, and all of them."""
    known = list(known)
    plain, asked = {other.lower(): other for other in known}, str(name).lower().replace("_", "-").replace(" ", "-")
    longer = [other for other in plain if asked and other.startswith(asked)]
    near = dict.fromkeys(longer + difflib.get_close_matches(asked, plain, n=2, cutoff=0.5))
    hint = f"did you mean {' or '.join(repr(plain[other]) for other in list(near)[:3])}? " if near else ""
    return f"{hint}choose one of {', '.join(known)}."


def check_choice(what: str, value: Any, known: Iterable[str]) -> str:
    """Return a name that must be one of ``known``."""
    known = list(known)
    if value not in known:
        raise InputError(f"unknown {what} {value!r}; {advise(value, known)}")
    return str(value)


def check_integer(name: str, value: Any, *, minimum: int, maximum: int | None = None) -> int:
    """Return an integer of at least ``minimum`` and at most ``maximum``."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < minimum or (maximum is not None and value > maximum):
        expected = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise InputError(f"{name} must be an integer {expected}, got {value!r}.")
    return int(value)


def check_positive(name: str, value: Any, advice: str) -> None:
    """Raise an :class:`InputError` unless ``value`` is a positive, finite number."""
    if not (isinstance(value, numbers.Real) and 0 < float(value) < float("inf")):
        raise InputError(f"{name} must be a positive number, got {value!r}; {advice}.")


def check_share(name: str, value: Any) -> None:
    """Raise an :class:`InputError` unless ``value`` is a number above 0 and below 1."""
    if not (isinstance(value, numbers.Real) and 0 < float(value) < 1):
        raise InputError(f"{name} must be a number above 0 and below 1, got {value!r}.")


def user_path(path: str | os.PathLike[str]) -> Path:
    """Path with ``~`` and ``~user`` replaced by home folders."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InputError(f"cannot find the home folder that {os.fspath(path)!r} names; write the full path.") from None


def parse_size(size: int | tuple[int, int] | str) -> tuple[int, int]:
    """Height and width from one side, (height, width), or a string such as ``"32"`` or ``"32x48"``."""
    parts: list[Any]
    parts = size.lower().split("x") if isinstance(size, str) else list(size) if isinstance(size, Iterable) else [size]
    try:
        sides = [int(part) for part in parts if float(part) == int(part)]
    except (ValueError, TypeError, OverflowError):
        sides = []
    if len(sides) != len(parts) or len(sides) not in (1, 2) or min(sides) < 1:
        raise InputError(f"resize must be one side or (height, width) in whole pixels, got {size!r}.")
    return sides[0], sides[-1]


def parse_frames(frame: str | Sequence[str]) -> tuple[str, ...]:
    """Frames from a name, a string with commas such as ``"content, canvas"``, or a sequence of names."""
    names = [each.strip() for each in frame.split(",")] if isinstance(frame, str) else list(frame)
    for name in names:
        check_choice("frame", name, ("auto", *FRAMES))
    if not names or ("auto" in names and len(names) > 1):
        raise InputError(f"frame 'auto' is for all sets together; give one frame for each set instead, got {frame!r}.")
    return tuple(names)


def is_feature_expression(text: str) -> bool:
    """Whether text is an expression of features: names joined by ``+``, encoders, or files of vectors."""
    return bool({"+", ":"} & set(text)) or text.endswith(".onnx") or bool(vector_files(text))


def vector_files(text: object) -> list[str]:
    """Files of vectors in a text such as ``a.npy,b.h5ad:X_pca``; none for any other text."""
    parts = text.split(",") if isinstance(text, str) else [""]
    return parts if all(re.fullmatch(r".+\.(npy|npz|parquet|h5|hdf5|h5ad)(:.*)?", part) for part in parts) else []
