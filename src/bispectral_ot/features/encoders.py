"""Encoders as features: any network or function, pooled over a group of motions, joined with other features."""

from __future__ import annotations

import hashlib
import importlib
import re
import sqlite3
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from bispectral_ot.checks import check_choice, check_integer, user_path
from bispectral_ot.datasets.warp import border_levels, rotation_maps, warp
from bispectral_ot.errors import DataWarning, InputError, warn
from bispectral_ot.files import cache_folder
from bispectral_ot.groups import CyclicGroup, DihedralGroup, FiniteGroup, ProductGroup
from bispectral_ot.groups.bispectrum import GroupBispectrum
from bispectral_ot.sampling import evenly_spaced
from bispectral_ot.transformer import SCRATCH_BYTES, BatchTransformer, Rows, columns_table

Images = NDArray[np.float32]
LAYOUTS = ("channels-last", "channels-first")
POOLS = ("mean", "max", "bispectrum")
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_RANGES: tuple[float, ...] = (1.0, 255.0, 65535.0)
_MEMORY_BYTES = 2**28  # rows that are kept in memory
_DIFFERENT = 1e-3  # of the norm of a row: an encoder that repeats itself differs by rounding only
# Rows that decide how parts are joined, their components at most, and the power of whitening (0: none, 1: whole).
_SAMPLE, _COMPONENTS, _WHITENING = 1024, 512, 0.5
_encoding = threading.Lock()  # one batch at a time, whatever thread asks: networks use all cores themselves


class _FittedColumns(BatchTransformer):
    """Features of images as they are, whose ``fit`` finds the columns itself."""

    raw = True  # images are not normalized before
    default_metric = "sqeuclidean"

    def _images(self, X: Any) -> NDArray[Any]:
        """Images to fit to, after their shape was learned."""
        rows, shape = self._read(X, reset=True)
        self.image_shape_ = shape or self._shape_of_row(rows.shape[1])
        images: NDArray[Any] = rows.reshape(len(rows), *self.image_shape_)
        return images


class Encoder(_FittedColumns):
    """Features that a network or any function gives for batches of images.

    Images are brought to the range 0 to 1, to ``channels`` channels and to ``size``, normalized, and given in batches
    to the encoder as float32 arrays (or tensors), one thread at a time. Rows are cached under a hash of the encoder and
    of the image, so that no image is encoded twice, see :func:`list_encodings` and :func:`clear_encodings`. Weights are
    never fetched: make the model first.

    Parameters
    ----------
    encoder
        Function of a batch that returns rows (n, columns); a ``torch.nn.Module`` in evaluation mode; ``"module:name"``
        of one of these (a class is called without arguments); or the path of a model ``.onnx``.
    size : int, optional
        Side to which images are resized, by area or linearly, without keeping the aspect; None to leave them.
    normalize : "imagenet", (mean, std) or None
        Mean and standard deviation of the channels that are subtracted and divided by, after the range is 0 to 1.
    channels : {3, 1}
        Channels of the input: grey images are repeated, colours averaged.
    layout : {"channels-last", "channels-first"}, optional
        Layout of a batch; channels first for modules and ONNX models by default, else channels last.
    batch : int
        Images that are encoded at a time.
    device : str, optional
        Device of a ``torch.nn.Module``; None for the device of its parameters.
    key : str, optional
        Name and version of a function, under which its rows are kept on disk. Modules and ONNX models are recognized by
        their content; rows of functions without a key are kept in memory only.
    cache : bool
        Whether rows are kept on disk.

    Attributes
    ----------
    range_ : tuple of float
        Range of the pixels that becomes 0 to 1: 0 and the first of 1, 255, 65535 that ``fit`` has seen no larger pixel
        than; else the smallest and largest pixel.
    n_encoded_ : int
        Images that were given to the encoder since ``fit``; known ones are read from the cache.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import Encoder
    >>> colours = Encoder(lambda batch: batch.mean(axis=(1, 2)))
    >>> colours.fit_transform(np.full((2, 8, 8), 255, dtype=np.uint8))
    array([[1., 1., 1.],
           [1., 1., 1.]], dtype=float32)
    """

    range_: tuple[float, float]
    _learned = ("range_", "_digest", "_n_columns")

    def __init__(
        self,
        encoder: Any,
        *,
        size: int | None = None,
        normalize: Any = None,
        channels: int = 3,
        layout: str | None = None,
        batch: int = 64,
        device: str | None = None,
        key: str | None = None,
        cache: bool = True,
    ) -> None:
        self.encoder = encoder
        self.size = size
        self.normalize = normalize
        self.channels = channels
        self.layout = layout
        self.batch = batch
        self.device = device
        self.key = key
        self.cache = cache
        self._memory: OrderedDict[bytes, Rows] = OrderedDict()

    def __sklearn_clone__(self) -> Self:
        """A copy that is not fitted and shares the encoder and the rows in memory."""
        copy = type(self)(**self.get_params(deep=False))
        copy._memory = self._memory
        return copy

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_memory": OrderedDict(), "_call": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_digest" in state:
            self._call = _resolved(self.encoder, self.layout, self.device)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        name = self.encoder if isinstance(self.encoder, str) else _name_of(self.encoder)
        return f"Encoder({name})"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn size and range of the images, and check the encoder with one of them."""
        images = self._images(X)
        if self.size is not None:
            check_integer("size", self.size, minimum=1)
        check_integer("batch", self.batch, minimum=1)
        check_integer("channels", self.channels, minimum=1)
        if self.layout is not None:
            check_choice("layout", self.layout, LAYOUTS)
        low, high = float(images.min()), float(images.max())
        highest = next((each for each in _RANGES if high <= each * 1.001), None) if low >= 0 else None
        integers = {"uint8": 255.0, "uint16": 65535.0}
        self.range_ = (0.0, integers.get(images.dtype.name, highest or high)) if low >= 0 else (low, high)
        self._call = _resolved(self.encoder, self.layout, self.device)
        self._digest = self._found_digest()
        first = self._prepared(images[:1])
        self.n_encoded_ = 0
        found = self._encoded(first)
        if self.n_encoded_:  # not from the cache: does the encoder repeat itself, alone and in a batch?
            again = self._called(np.repeat(first, 2, axis=0))
            if np.abs(again - found).max() > _DIFFERENT * max(float(np.linalg.norm(found)), 1e-30):
                raise InputError(
                    f"{self!r} gives different rows for the same image, or rows that depend on the batch: dropout or "
                    "batch statistics are on. Call model.eval() first."
                )
        self._n_columns = found.shape[1]
        self._set_columns(*self._prepare())
        return self

    def _parameters(self) -> dict[str, Any]:
        if not isinstance(self.encoder, (str, Path)):
            raise InputError(
                f"{self!r} cannot be saved with a model; give the encoder as module:name or as a path that ends with "
                ".onnx."
            )
        return {**super()._parameters(), "encoder": str(self.encoder), "device": None}

    def set_state(self, shape: Any, learned: dict[str, Any]) -> Self:
        """Take up the state; an encoder of other weights or options is an error."""
        self.n_encoded_ = 0
        self._call = _resolved(self.encoder, self.layout, self.device)
        super().set_state(shape, {**learned, "range_": tuple(learned["range_"])})
        if self._found_digest() != self._digest:
            raise InputError(f"{self!r} is not the encoder of the saved model: its weights or options have changed.")
        return self

    def _prepare(self) -> tuple[NDArray[np.void], Rows]:
        return columns_table(column=np.arange(self._n_columns)), np.ones(self._n_columns, dtype=np.float32)

    def _found_digest(self) -> str:
        _update_digest(digest := hashlib.blake2b(digest_size=16), self._call.identity, self.key, self._options())
        return str(digest.hexdigest())

    def _options(self) -> str:
        return repr((self.size, self.normalize, self.channels, self._call.layout, self.range_))

    def _scratch_per_row(self) -> int:
        return SCRATCH_BYTES // self.batch

    def _fill(self, rows: NDArray[Any], out: Rows) -> int:
        out[:] = self.encode(rows.reshape(len(rows), *self.image_shape_))
        return 0

    def encode(self, images: NDArray[Any]) -> Rows:
        """Rows of images (n, height, width) or (n, height, width, channels), in batches, known ones from the cache."""
        parts = [self._encoded(self._prepared(images[i : i + self.batch])) for i in range(0, len(images), self.batch)]
        return np.concatenate(parts)

    def _prepared(self, images: NDArray[Any]) -> Images:
        """Images in the range, size and layout of the encoder."""
        low, high = self.range_
        planes = images.astype(np.float32).reshape(*images.shape[:3], -1)
        planes = ((planes - np.float32(low)) / np.float32(high - low or 1)).clip(0, 1)
        if planes.shape[3] != self.channels:
            planes = np.repeat(planes.mean(axis=3, keepdims=True), self.channels, axis=3)
        if self.size is not None and planes.shape[1:3] != (self.size, self.size):
            down, across = (resize_matrix(side, self.size) for side in planes.shape[1:3])
            planes = np.einsum("yh,nhwc,xw->nyxc", down, planes, across, optimize=True)
        if self.normalize is not None:
            mean, std = _IMAGENET if self.normalize == "imagenet" else self.normalize
            shift, scale = np.array(mean, dtype=np.float32), np.array(std, dtype=np.float32)
            planes = (planes - shift) / scale
        if self._call.layout == "channels-first":
            planes = planes.transpose(0, 3, 1, 2)
        return np.ascontiguousarray(planes, dtype=np.float32)

    def _encoded(self, batch: Images) -> Rows:
        """Rows of a prepared batch; those that are neither in memory nor on disk are computed."""
        keys = [hashlib.blake2b(self._digest.encode() + image.tobytes(), digest_size=16).digest() for image in batch]
        on_disk = self.cache and (self._call.identity is not None or self.key is not None)
        with _encoding:
            missing = [key for key in dict.fromkeys(keys) if key not in self._memory]
            if missing and on_disk:
                self._memory.update(_load_rows(self._digest, missing))
                missing = [key for key in missing if key not in self._memory]
            if missing:
                found = self._called(batch[[keys.index(key) for key in missing]])
                new = dict(zip(missing, found, strict=True))
                self._memory.update(new)
                if on_disk:
                    _save_rows(self._digest, repr(self), new)
            rows = np.stack([self._memory[key] for key in keys])
            most = max(len(batch), _MEMORY_BYTES // rows[:1].nbytes)
            while len(self._memory) > most:
                self._memory.popitem(last=False)
        return rows

    def _called(self, batch: Images) -> Rows:
        """Rows of the encoder for a batch, checked."""
        self.n_encoded_ += len(batch)
        found = np.asarray(self._call.function(batch))
        if found.ndim != 2 or len(found) != len(batch):
            raise InputError(
                f"{self!r} gave an array of shape {found.shape} for {len(batch)} images; it should give one row each "
                "(pool feature maps, for example by .mean((2, 3)))."
            )
        if found.dtype.kind not in "buif":
            raise InputError(f"{self!r} gave {found.dtype}; rows must be real numbers.")
        rows = np.ascontiguousarray(found, dtype=np.float32)
        known = getattr(self, "n_features_out_", rows.shape[1])
        if rows.shape[1] != known:
            raise InputError(f"{self!r} gave {rows.shape[1]} columns, but {known} for the images before.")
        if not np.isfinite(rows).all():
            bad = int(np.argmin(np.isfinite(rows).all(axis=1)))
            raise InputError(f"{self!r} gave NaN or infinity for image {bad} of a batch of {len(batch)}.")
        return rows


class Orbit(_FittedColumns):
    """Rows of an encoder over a finite group of motions of the image, pooled: invariant under the group.

    ``f(g) = encoder(g^-1 image)`` is a signal on the group for every column, which moving the image translates. Its
    mean, its maximum, or its group bispectrum (selective, to the power 1/3) does not change. One image costs as many
    encodings as the group has elements.

    Parameters
    ----------
    encoder
        An :class:`Encoder`, or what makes one.
    group : str
        ``"C4"`` and ``"D4"`` (with mirrors): quarter turns, exactly. ``"C8"``, ``"C16"``, ``"D8"``, ...: turns of the
        largest disk inside the image by warping, on its background, exact for quarter turns. ``"shifts4"``: cyclic
        shifts by quarters of the sides.
    pool : {"mean", "max", "bispectrum"}
        How the signal becomes invariant; only the bispectrum keeps the signal up to translation.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import Orbit
    >>> images = np.random.default_rng(0).random((3, 8, 8))
    >>> orbit = Orbit(lambda batch: batch[:, 0, :, 0]).fit(images)  # the upper edge
    >>> turned = np.rot90(images, axes=(1, 2))
    >>> bool(np.allclose(orbit.transform(images), orbit.transform(turned), atol=1e-5))
    True
    """

    _learned = ("encoder_", "scale_")

    def __init__(self, encoder: Any, group: str = "C4", pool: str = "mean") -> None:
        self.encoder = encoder
        self.group = group
        self.pool = pool

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"Orbit({as_encoder(self.encoder)!r}, {self.group}, {self.pool})"

    @property
    def symmetry(self) -> str | None:
        """Symmetry of the group."""
        names = {"C": "rotation", "D": "rotation-reflection", "s": "translation"}
        return names[self.group[0]] if re.fullmatch(_GROUPS, self.group) else None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the image size, and fit the encoder."""
        check_choice("pool", self.pool, POOLS)
        images = self._images(X)
        height, width = self.image_shape_[:2]
        encoder = as_encoder(self.encoder)
        if height != width and self.group[0] != "s" and encoder.size is None:
            raise InputError(
                f"quarter turns need square images, but these are {height} x {width}; give the encoder a size."
            )
        self.encoder_ = clone(encoder, safe=False).fit(images)
        self.scale_ = 1.0
        if self.pool == "bispectrum":
            some = self.encoder_.encode(images[:1])
            self.scale_ = float(np.sqrt(np.mean(np.square(some, dtype=np.float64)))) or 1.0
        self._set_columns(*self._prepare())
        return self

    def _parameters(self) -> dict[str, Any]:
        return {**super()._parameters(), "encoder": None}

    def _prepare(self) -> tuple[NDArray[np.void], Rows]:
        self.motions_ = Motions.of(self.group)
        columns = self.encoder_.n_features_out_
        if self.pool == "bispectrum":
            self.bispectrum_ = GroupBispectrum(self.motions_.group, coefficients="selective", normalize=False)
            self.bispectrum_.fit(np.ones((1, self.motions_.group.order)))
            columns *= self.bispectrum_.n_features_out_
        return columns_table(column=np.arange(columns)), np.ones(columns, dtype=np.float32)

    def set_state(self, shape: Any, learned: dict[str, Any]) -> Self:
        """Take up the state."""
        self.encoder = learned["encoder_"]
        return super().set_state(shape, learned)

    def _scratch_per_row(self) -> int:
        return SCRATCH_BYTES // max(1, as_encoder(self.encoder).batch // 4)

    def _fill(self, rows: NDArray[Any], out: Rows) -> int:
        signals = self.signals(rows.reshape(len(rows), *self.image_shape_))
        if self.pool == "mean":
            signals.mean(axis=1, out=out)
        elif self.pool == "max":
            signals.max(axis=1, out=out)
        else:
            flat = signals.transpose(0, 2, 1).reshape(-1, signals.shape[1]) / np.float32(self.scale_)
            found = np.empty((len(flat), self.bispectrum_.n_features_out_), dtype=np.float32)
            self.bispectrum_._fill(flat, found)
            # degree 1 again; without the constant, roots of rounding would be seen
            found *= (np.square(found) + np.float32(1e-9)) ** np.float32(-1 / 3)
            out[:] = found.reshape(len(rows), -1) * np.float32(self.scale_)
        return 0

    def signals(self, images: NDArray[Any]) -> Rows:
        """Rows (n, elements, columns) of the encoder for the images moved by the inverse of each element."""
        moved = self.motions_.moved(images)
        found = [self.encoder_.encode(moved(int(element))) for element in self.motions_.group.inverse]
        return np.stack(found, axis=1)


_GROUPS = r"[CD]\d+|shifts\d+"


class Motions(NamedTuple):
    """Finite group of motions of images: turns and mirrors, or cyclic shifts."""

    group: FiniteGroup
    n: int
    shifts: bool

    @classmethod
    def of(cls, name: str) -> Motions:
        """Motions for a name such as C8, D4 or shifts4."""
        if not isinstance(name, str) or not re.fullmatch(_GROUPS, name):
            raise InputError(f"group must be a name such as C4, C8, D4 or shifts4, got {name!r}.")
        n = check_integer("order of the group", int(re.sub(r"\D", "", name)), minimum=1)
        if name[0] == "s":
            return cls(ProductGroup(n, n), n, True)
        return cls(CyclicGroup(n) if name[0] == "C" else DihedralGroup(n), n, False)

    def moved(self, images: NDArray[Any]) -> Callable[[int], NDArray[Any]]:
        """Function that moves the images by an element of the group."""
        if self.shifts:
            height, width = images.shape[1:3]

            def shift(element: int) -> NDArray[Any]:
                down, across = divmod(element, self.n)
                return np.roll(images, (down * height // self.n, across * width // self.n), axis=(1, 2))

            return shift
        turned: dict[int, NDArray[Any]] = {}
        base = images if self.n in (1, 2, 4) else _on_disk(images)

        def turn(element: int) -> NDArray[Any]:
            mirror, steps = divmod(element, self.n)
            quarters, rest = divmod(4 * steps, self.n)  # quarters, and the rest in 1 / (4 n) of a turn
            key = rest + self.n * mirror
            if key not in turned:
                picture = base[:, :, ::-1] if mirror else base
                if rest:
                    maps = rotation_maps(np.full(len(picture), 90 * rest / self.n), *picture.shape[1:3])
                    fill = border_levels(picture.reshape(*picture.shape[:3], -1))
                    picture = warp(picture, maps, fill=fill).reshape(picture.shape)
                turned[key] = picture
            return np.rot90(turned[key], quarters, axes=(1, 2))

        return turn


def _on_disk(images: NDArray[Any]) -> NDArray[np.float32]:
    """Images whose corners, outside the largest disk, have the level of the border."""
    height, width = images.shape[1:3]
    y, x = np.ogrid[:height, :width]
    inside = np.hypot(y - (height - 1) / 2, x - (width - 1) / 2) <= min(height, width) / 2
    planes = images.reshape(*images.shape[:3], -1).astype(np.float32)
    levels = np.asarray(border_levels(planes), dtype=np.float32).reshape(len(images), 1, 1, -1)
    return np.where(inside[:, :, None], planes, levels).reshape(images.shape)


class Join(_FittedColumns):
    """Several features side by side, compared by their squared Euclidean distance.

    Each part is put on its principal components, whose variances are raised to the power 1/2, so that a few directions
    do not outweigh all others, and then has total variance 1, times its weight. No labels are used.

    Parameters
    ----------
    *parts
        Names of features, transformers or encoders, at least two.
    weights : sequence of float, optional
        Weight of each part; equal by default.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import Join
    >>> images = np.random.default_rng(0).random((30, 16, 16))
    >>> Join("bispectrum", lambda batch: batch.mean(axis=(1, 2))).fit_transform(images).shape[0]
    30
    """

    _learned = ("scale_", "parts_", "means_", "projections_")

    def __init__(self, *parts: Any, weights: Any = None) -> None:
        self.parts = parts
        self.weights = weights

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Weights; parts are positional."""
        return {"weights": self.weights}

    def __sklearn_clone__(self) -> Self:
        """A copy that is not fitted."""
        return type(self)(*self.parts, weights=self.weights)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"Join({', '.join(map(repr, self._members()))})"

    @property
    def symmetry(self) -> str | None:
        """Symmetry that all parts have; None where they differ."""
        names = {part.symmetry for part in self._members()}
        return names.pop() if len(names) == 1 else None

    def _members(self) -> list[Any]:
        from bispectral_ot.features.registry import choose_features

        return [choose_features(part).transformer for part in self.parts]

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the parts, and bring them to one scale."""
        if len(self.parts) < 2:
            raise InputError(f"Join needs two parts at least, got {len(self.parts)}.")
        weights = np.ones(len(self.parts)) if self.weights is None else np.asarray(self.weights, dtype=np.float64)
        if weights.shape != (len(self.parts),) or not (np.isfinite(weights) & (weights >= 0)).all():
            raise InputError(f"weights must be {len(self.parts)} numbers of at least 0, got {self.weights!r}.")
        images = self._images(X)
        self.scale_ = float(images.mean(dtype=np.float64)), float(images.std(dtype=np.float64)) or 1.0
        self.parts_ = [clone(part, safe=False).fit(self._input(part, images)) for part in self._members()]
        some = images[evenly_spaced(len(images), _SAMPLE)]
        self.means_, self.projections_ = [], []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # transform will warn
            for part, weight in zip(self.parts_, weights, strict=True):
                features = part.transform(self._input(part, some))
                if part.aligns:
                    raise InputError(f"{part!r} are compared at the best rotation of each pair and cannot be joined.")
                scales = 1.0 if part.feature_weights_ is None else np.sqrt(part.feature_weights_)[:, None]
                self.means_.append(features.mean(axis=0))
                self.projections_.append(np.float32(np.sqrt(weight)) * scales * shrunk(features * np.ravel(scales)))
        self._set_columns(*self._prepare())
        return self

    def _prepare(self) -> tuple[NDArray[np.void], Rows]:
        counts = [matrix.shape[1] for matrix in self.projections_]
        parts = [columns_table(part=np.array(i), component=np.arange(n)) for i, n in enumerate(counts)]
        return np.concatenate(parts), np.ones(sum(counts), dtype=np.float32)

    def set_state(self, shape: Any, learned: dict[str, Any]) -> Self:
        """Take up the state."""
        self.parts = tuple(learned["parts_"])
        return super().set_state(shape, learned)

    def _input(self, part: Any, images: NDArray[Any]) -> NDArray[Any]:
        """Images as a part takes them: as they are, or normalized."""
        if getattr(part, "raw", False):
            return images
        return (images - np.float32(self.scale_[0])) / np.float32(self.scale_[1])

    def _scratch_per_row(self) -> int:
        return SCRATCH_BYTES // int(max(part.block_rows for part in self.parts_))

    def _fill(self, rows: NDArray[Any], out: Rows) -> int:
        images, column, vanishing = rows.reshape(len(rows), *self.image_shape_), 0, 0
        for part, mean, projection in zip(self.parts_, self.means_, self.projections_, strict=True):
            features = np.empty((len(rows), part.n_features_out_), dtype=np.float32)
            step = max(1, part.block_rows)
            for start in range(0, len(rows), step):
                block = slice(start, start + step)
                vanishing += part.fill(self._input(part, images[block]), features[block])
            np.matmul(features - mean, projection, out=out[:, column : column + projection.shape[1]])
            column += projection.shape[1]
        return min(vanishing, len(rows))


def shrunk(rows: Rows) -> Rows:
    """Matrix (columns, components) that brings rows (n, columns) to total variance 1, variances to the power 1/2."""
    centred = (rows - rows.mean(axis=0)).astype(np.float64)
    if not centred.any():
        return np.zeros((rows.shape[1], 1), dtype=np.float32)
    _, values, directions = np.linalg.svd(centred, full_matrices=False)
    kept = (values > 1e-3 * values[0]).nonzero()[0][:_COMPONENTS]
    variances = values[kept] ** 2 / len(rows)
    powers = variances ** (-_WHITENING / 2)
    matrix = directions[kept].T * powers / np.sqrt(np.sum(variances * powers**2))
    return np.ascontiguousarray(matrix, dtype=np.float32)


def as_encoder(encoder: Any) -> Encoder:
    """An encoder as it is; a function, module or name as one with the usual options."""
    return encoder if isinstance(encoder, Encoder) else Encoder(encoder)


def parse_features(text: str, symmetry: str | None) -> Any:
    """Features for names joined by ``+``, with encoders as ``module:name`` or ``model.onnx``.

    Encoders are pooled over quarter turns (and mirrors) where the symmetry has them.

    Examples
    --------
    >>> parse_features("bispectrum+numpy:ravel", "rotation")
    Join(CombinedBispectrum(), Orbit(Encoder(numpy:ravel), C4, mean))
    """
    from bispectral_ot.features.registry import FEATURES, choose_features

    def one(name: str) -> Any:
        if name in FEATURES:
            return choose_features(name, symmetry=symmetry).transformer
        if ":" not in name and not name.endswith(".onnx"):
            check_choice("features", name, FEATURES)
        turns = (symmetry or "rotation").split("-")
        if "rotation" not in turns:
            return Encoder(name)
        return Orbit(Encoder(name), "D4" if "reflection" in turns else "C4")

    parts = [one(part.strip()) for part in text.split("+")]
    return parts[0] if len(parts) == 1 else Join(*parts)


def resize_matrix(given: int, wanted: int) -> NDArray[np.float32]:
    """Matrix (wanted, given) that resizes a line of pixels: means over equal stretches, or linear interpolation."""
    if wanted < given:
        edges = np.linspace(0, given, wanted + 1)
        pixels = np.arange(given)
        overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
        return np.asarray(overlap.clip(0) * (wanted / given), dtype=np.float32)
    places = np.clip((np.arange(wanted) + 0.5) * given / wanted - 0.5, 0, given - 1)
    return np.asarray(np.clip(1 - np.abs(places[:, None] - np.arange(given)), 0, None), dtype=np.float32)


class _Call(NamedTuple):
    """Function of a batch of float32 arrays, its layout, and the hash of its content, where that is known."""

    function: Callable[[Images], Any]
    layout: str
    identity: str | None


def _resolved(encoder: Any, layout: str | None, device: str | None) -> _Call:
    if isinstance(encoder, (str, Path)):
        text = str(encoder)
        if text.endswith(".onnx"):
            return _onnx_model(user_path(text), layout)
        if not re.fullmatch(r"[\w.]+:\w+", text):
            raise InputError(
                f"the encoder {text!r} is neither module:name nor a path that ends with .onnx. Names of models are not "
                "looked up, since that would fetch their weights; make the model and give it as Encoder(model)."
            )
        module, name = text.split(":")
        try:
            encoder = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise InputError(f"the encoder {text} cannot be imported ({error}); is its package installed?") from None
        encoder = encoder() if isinstance(encoder, type) else encoder
    if hasattr(encoder, "state_dict") and hasattr(encoder, "eval"):
        return _torch_module(encoder, layout, device)
    if not callable(encoder):
        raise InputError(f"an encoder is a function, a torch.nn.Module, module:name or a path .onnx; got {encoder!r}.")
    return _Call(encoder, layout or LAYOUTS[0], None)


def _torch_module(module: Any, layout: str | None, device: str | None) -> _Call:
    import torch

    if module.training:
        raise InputError(f"the module {_name_of(module)} is in training mode: call model.eval() first.")
    if device is not None:
        module = module.to(device)
    place = next(module.parameters(), torch.empty(0)).device
    digest = hashlib.blake2b(digest_size=16)
    _update_digest(digest, _name_of(module), repr(module))
    for name, tensor in module.state_dict().items():
        _update_digest(digest, name, tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())

    def call(batch: Images) -> Any:
        with torch.inference_mode():
            found = module(torch.from_numpy(batch).to(place))
            if not isinstance(found, torch.Tensor):
                raise InputError(
                    f"{_name_of(module)} gave {type(found).__name__}; wrap it to give one tensor (n, columns)."
                )
            return found.float().cpu().numpy()

    return _Call(call, layout or LAYOUTS[1], digest.hexdigest())


def _onnx_model(path: Path, layout: str | None) -> _Call:
    if not path.is_file():
        raise InputError(f"there is no model {str(path)!r}.")
    try:
        import onnxruntime
    except ImportError:
        raise InputError("models .onnx need onnxruntime; install it with pip install 'bispectral-ot[onnx]'.") from None
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has exception classes of its own
        raise InputError(f"{path} is no model that onnxruntime can run ({error}).") from None
    name = session.get_inputs()[0].name
    identity = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    return _Call(lambda batch: session.run(None, {name: batch})[0], layout or LAYOUTS[1], identity)


def _name_of(encoder: Any) -> str:
    return str(getattr(encoder, "__qualname__", type(encoder).__qualname__))


def _update_digest(digest: Any, *parts: Any) -> None:
    for part in parts:
        content = part if isinstance(part, bytes) else repr(part).encode()
        digest.update(f"{len(content)} ".encode() + content)


class Encodings(NamedTuple):
    """Cached rows of one encoder: file, description, number of images and bytes."""

    file: str
    encoder: str
    images: int
    bytes: int


def list_encodings() -> list[Encodings]:
    """Encoders whose rows are cached on disk."""
    found = []
    for path in sorted(cache_folder("encodings").glob("*.sqlite")):
        try:
            with closing(sqlite3.connect(path)) as connection:
                (images,) = connection.execute("SELECT count(*) FROM rows").fetchone()
                (name,) = connection.execute("SELECT name FROM encoder").fetchone()
        except (sqlite3.Error, TypeError):
            images, name = 0, "damaged"
        found.append(Encodings(path.name, str(name), int(images), path.stat().st_size))
    return found


def clear_encodings(file: str | None = None) -> int:
    """Delete the cached rows of one encoder, by its file, or of all; return the number of files."""
    folder = cache_folder("encodings")
    paths = sorted(folder.glob("*.sqlite")) if file is None else [folder / Path(file).name]
    for path in paths:
        path.unlink(missing_ok=True)
    return len(paths)


T = TypeVar("T")


def _with_database(digest: str, action: Callable[[sqlite3.Connection], T], default: T) -> T:
    """Result of an action on the database of an encoder; the default, with a warning, where it cannot be used."""
    path = cache_folder("encodings") / f"{digest}.sqlite"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS rows (key BLOB PRIMARY KEY, row BLOB) WITHOUT ROWID")
            connection.execute("CREATE TABLE IF NOT EXISTS encoder (name TEXT PRIMARY KEY)")
            return action(connection)
    except (OSError, sqlite3.Error) as error:
        warn(
            f"the cache of encodings {path} cannot be used ({error}); rows are not kept on disk. "
            "Delete it with clear_encodings() if it is damaged.",
            DataWarning,
        )
        return default


def _load_rows(digest: str, keys: list[bytes]) -> dict[bytes, Rows]:
    def read(connection: sqlite3.Connection) -> dict[bytes, Rows]:
        query = "SELECT row FROM rows WHERE key = ?"
        entries = ((key, connection.execute(query, (key,)).fetchone()) for key in keys)
        return {key: np.frombuffer(entry[0], dtype=np.float32) for key, entry in entries if entry is not None}

    return _with_database(digest, read, {})


def _save_rows(digest: str, name: str, rows: dict[bytes, Rows]) -> None:
    def write(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT OR IGNORE INTO encoder VALUES (?)", (name,))
        entries = [(key, row.tobytes()) for key, row in rows.items()]
        connection.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?)", entries)

    _with_database(digest, write, None)
