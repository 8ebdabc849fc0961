"""Encoders as features: networks or functions of images, their cached rows, and orbits under finite groups."""

import hashlib
import importlib
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from bispectral_ot.checks import check_choice, check_integer, user_path
from bispectral_ot.datasets.frames import Placement
from bispectral_ot.datasets.warp import border_levels, radii, rotation_maps, warp
from bispectral_ot.errors import InputError, warn
from bispectral_ot.files import cache_folder
from bispectral_ot.groups import CyclicGroup, DihedralGroup, FiniteGroup, ProductGroup
from bispectral_ot.groups.bispectrum import GroupBispectrum
from bispectral_ot.store import content_hash
from bispectral_ot.transformer import SCRATCH_BYTES, BatchTransformer, Columns, Rows, State, columns_table, unit_weights

LAYOUTS = ("channels-last", "channels-first")
POOLS = ("mean", "max", "bispectrum")
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_RANGES = (1.0, 255.0, 65535.0)
_MEMORY_BYTES = 2**28  # rows that are kept in memory
_DIFFERENT = 1e-3  # of the norm of a row: outputs of a deterministic encoder differ by rounding only
_encoding = threading.Lock()  # one batch at a time for all threads: networks use all cores themselves


class MissingEncoderError(InputError):
    """Encoder of a saved model that was not named (its code is loaded only then), or that has changed."""


class _Call(NamedTuple):
    function: Callable[[Rows], Any]  # of a batch of float32 arrays
    layout: str
    identity: str | None  # hash of its content, if known


class Encoder(BatchTransformer):
    """Features of a network or of any function of batches of images.

    Rows are cached by a hash of encoder and image, see :func:`list_encodings`. Weights are never downloaded.

    Parameters
    ----------
    encoder
        Function from a batch to rows (n, columns), ``torch.nn.Module`` in eval mode, ``"module:name"`` or ONNX file.
    size : Side to which images are resized, with their aspect ratio, on their own background; None leaves them.
    normalize : "imagenet" or (mean, std) of the channels, in the range 0 to 1; None for neither.
    channels : Channels of the input, 3 or 1: grey images are repeated, colours averaged.
    layout : "channels-first" (default of modules and ONNX models) or "channels-last" (default of functions).
    batch : Images that are encoded at a time.
    device : Device of a ``torch.nn.Module``; that of its parameters by default.
    key : Name and version of a function, to cache its rows on disk; other encoders are identified by their content.

    Attributes
    ----------
    range_ : Range of the pixels that becomes 0 to 1: 0 and the first of 1, 255, 65535 that no pixel exceeds in ``fit``.
    n_encoded_ : Number of images encoded since ``fit``, without those read from the cache.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import Encoder
    >>> colours = Encoder(lambda batch: batch.mean(axis=(1, 2)))
    >>> colours.fit_transform(np.full((2, 8, 8), 255, dtype=np.uint8))
    array([[1., 1., 1.],
           [1., 1., 1.]], dtype=float32)
    """

    raw = True
    default_metric = "sqeuclidean"
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
    ) -> None:
        self.encoder, self.size, self.normalize, self.channels = encoder, size, normalize, channels
        self.layout, self.batch, self.device, self.key = layout, batch, device, key
        self._memory: dict[bytes, Rows] = {}
        self._resolved: _Call | None = None

    def __sklearn_clone__(self) -> Self:
        """Copy that is not fitted and shares the encoder and the rows in memory."""
        copy = type(self)(**self.get_params(deep=False))
        copy._memory = self._memory
        return copy

    def __getstate__(self) -> State:
        return {**super().__getstate__(), "_memory": {}, "_resolved": None}

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"Encoder({self.encoder if isinstance(self.encoder, str) else _name_of(self.encoder)})"

    @property
    def _call(self) -> _Call:
        self._resolved = self._resolved or load_encoder(self.encoder, self.layout, self.device)
        return self._resolved

    def _fit(self, rows: NDArray[Any]) -> None:
        """Learn the range of the images, and check the encoder with one of them."""
        images = rows.reshape(len(rows), *self.image_shape_)
        for name in ("size", "batch", "channels"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), minimum=1)
        check_choice("layout", self.layout or LAYOUTS[0], LAYOUTS)
        low, high = float(images.min()), float(images.max())
        highest = next((each for each in _RANGES if high <= each * 1.001), high)
        integers = {"uint8": 255.0, "uint16": 65535.0}
        self.range_ = (0.0, integers.get(images.dtype.name, highest)) if low >= 0 else (low, high)
        self._resolved = None  # weights may have changed since
        self._digest = self._found_digest()
        first = self._prepared(images[:1])
        self.n_encoded_ = 0
        self.__dict__.pop("_n_columns", None)
        found = self._encoded(first)
        if self.n_encoded_:  # without the cache: are rows reproducible, alone and in a batch?
            again = self._called(self._prepared(images[[0, -1]]))[0]
            if np.abs(again - found).max() > _DIFFERENT * max(float(np.linalg.norm(found)), 1e-30):
                problem = f"{self!r} returns different rows for the same image, or rows that depend on the batch"
                raise InputError(f"{problem}: dropout or batch statistics are on. Call model.eval() first.")
        self._n_columns = found.shape[1]
        super()._fit(rows)

    def _prepare(self) -> Columns:
        return unit_weights(columns_table(column=np.arange(self._n_columns)))

    def _found_digest(self) -> str:
        options = repr((self.size, self.normalize, self.channels, self._call.layout, self.range_))
        return content_hash(self._call.identity, self.key, options)

    def _parameters(self) -> State:
        if not isinstance(self.encoder, (str, Path)):
            fix = "give the encoder as module:name or as a path that ends with .onnx"
            raise InputError(f"{self!r} cannot be saved with a model; {fix}.")
        return {**super()._parameters(), "encoder": str(self.encoder), "device": None}

    def set_state(self, shape: Any, learned: State) -> Self:
        """Set the state; an encoder with other weights or options is an error."""
        self.n_encoded_ = 0
        super().set_state(shape, {**learned, "range_": tuple(learned["range_"])})
        if self._found_digest() != self._digest:
            raise MissingEncoderError(f"{self!r} is not the encoder of the saved model: its weights have changed.")
        return self

    def _scratch_per_row(self) -> int:
        return SCRATCH_BYTES // self.batch

    def _fill(self, rows: NDArray[Any], out: Rows) -> int:
        out[:] = self.encode(rows.reshape(len(rows), *self.image_shape_))
        return 0

    def encode(self, images: NDArray[Any]) -> Rows:
        """Rows of images (n, height, width) or (n, height, width, channels), in batches, known ones from the cache."""
        parts = [self._encoded(self._prepared(images[i : i + self.batch])) for i in range(0, len(images), self.batch)]
        return np.concatenate(parts)

    def _prepared(self, images: NDArray[Any]) -> Rows:
        """Images in the range, size and layout of the encoder."""
        planes, (low, high) = images.astype(np.float32).reshape(*images.shape[:3], -1), self.range_
        planes = ((planes - np.float32(low)) / np.float32(high - low or 1)).clip(0, 1)
        if planes.shape[3] != self.channels:
            planes = np.repeat(planes.mean(axis=3, keepdims=True), self.channels, axis=3)
        if self.size is not None:
            planes = Placement()(planes, (self.size, self.size))
        if self.normalize is not None:
            mean, std = np.array(_IMAGENET if self.normalize == "imagenet" else self.normalize, dtype=np.float32)
            planes = (planes - mean) / std
        if self._call.layout == "channels-first":
            planes = planes.transpose(0, 3, 1, 2)
        return np.ascontiguousarray(planes, dtype=np.float32)

    def _encoded(self, batch: Rows) -> Rows:
        """Rows of a prepared batch; those that are neither in memory nor on disk are computed."""
        keys = [hashlib.blake2b(self._digest.encode() + image.tobytes(), digest_size=16).digest() for image in batch]
        on_disk = self._call.identity is not None or self.key is not None
        with _encoding:
            missing = [key for key in dict.fromkeys(keys) if key not in self._memory]
            if missing and on_disk:
                self._memory.update(_rows_on_disk(self._digest, missing))
                missing = [key for key in missing if key not in self._memory]
            if missing:
                found = self._called(batch[[keys.index(key) for key in missing]])
                new = dict(zip(missing, found, strict=True))
                self._memory.update(new)
                if on_disk:
                    _rows_on_disk(self._digest, [], new, repr(self))
            rows = np.stack([self._memory[key] for key in keys])
            most = max(len(batch), _MEMORY_BYTES // rows[:1].nbytes)
            for key in list(self._memory)[: max(0, len(self._memory) - most)]:  # the oldest
                del self._memory[key]
        return rows

    def _called(self, batch: Rows) -> Rows:
        self.n_encoded_ += len(batch)
        try:
            found = np.asarray(self._call.function(batch))
        except Exception as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())
            fix = "check its code, or give images of the size that it expects (Encoder(size=...), --resize)"
            raise InputError(f"{self!r} failed for images of shape {batch.shape[1:]} ({said}); {fix}.") from error
        if found.ndim != 2 or len(found) != len(batch):
            fix = "it should return one row per image (pool feature maps, for example by .mean((2, 3)))"
            raise InputError(f"{self!r} returned shape {found.shape} for {len(batch)} images; {fix}.")
        if found.dtype.kind not in "buif":
            raise InputError(f"{self!r} returned {found.dtype}; rows must be real numbers.")
        rows = np.ascontiguousarray(found, dtype=np.float32)
        known = getattr(self, "_n_columns", rows.shape[1])
        if rows.shape[1] != known:
            raise InputError(f"{self!r} returned {rows.shape[1]} columns, but {known} for earlier images.")
        if not np.isfinite(rows).all():
            bad = int(np.argmin(np.isfinite(rows).all(axis=1)))
            raise InputError(f"{self!r} returned NaN or infinity for image {bad} of {len(batch)}; check its code.")
        return rows


class Orbit(BatchTransformer):
    """Rows of an encoder over a finite group of transformations of the image, pooled: invariant under the group.

    Each column of ``f(g) = encoder(g^-1 image)`` is a signal on the group, with invariant mean, maximum and bispectrum.

    Parameters
    ----------
    encoder : An :class:`Encoder`, or anything that it accepts.
    group : str
        ``"C4"`` and ``"D4"`` (with reflections): exact quarter turns. ``"C8"``, ``"C16"``, ``"D8"``, ...: interpolated
        rotations of the largest disk inside the image. ``"shifts4"``: cyclic shifts by quarters of the sides.
    pool : {"mean", "max", "bispectrum"}; only the bispectrum keeps the signal up to translation.

    Examples
    --------
    >>> import numpy as np
    >>> from bispectral_ot.features import Orbit
    >>> images = np.random.default_rng(0).random((3, 8, 8))
    >>> orbit = Orbit(lambda batch: batch[:, 0, :, 0]).fit(images)  # the upper edge
    >>> rotated = np.rot90(images, axes=(1, 2))
    >>> bool(np.allclose(orbit.transform(images), orbit.transform(rotated), atol=1e-5))
    True
    """

    raw = True
    default_metric = "sqeuclidean"
    _learned = ("encoder_", "scale_")

    def __init__(self, encoder: Any, group: str = "C4", pool: str = "mean") -> None:
        self.encoder, self.group, self.pool = encoder, group, pool

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"Orbit({as_encoder(self.encoder)!r}, {self.group}, {self.pool})"

    @property
    def symmetry(self) -> str | None:
        """Symmetry of the group."""
        return {"C": "rotation", "D": "rotation-reflection", "s": "translation"}.get(str(self.group)[:1])

    def _fit(self, rows: NDArray[Any]) -> None:
        check_choice("pool", self.pool, POOLS)
        _group_of(self.group)
        height, width = self.image_shape_[:2]
        encoder = as_encoder(self.encoder)
        if height != width and self.group[0] != "s" and encoder.size is None:
            size = f"{height} x {width}"
            raise InputError(f"quarter turns need square images, but these are {size}; give the encoder a size.")
        images = rows.reshape(len(rows), *self.image_shape_)
        self.encoder_ = clone(encoder, safe=False).fit(images)
        some = self.encoder_.encode(images[:1])
        self.scale_ = float(np.sqrt(np.mean(np.square(some, dtype=np.float64)))) or 1.0
        super()._fit(rows)

    def _prepare(self) -> Columns:
        self.group_ = _group_of(self.group)
        columns = self.encoder_.n_features_out_
        if self.pool == "bispectrum":
            self.bispectrum_ = GroupBispectrum(self.group_, coefficients="selective", normalize=False)
            self.bispectrum_.fit(np.ones((1, self.group_.order)))
            columns *= self.bispectrum_.n_features_out_
        return unit_weights(columns_table(column=np.arange(columns)))

    def _parameters(self) -> State:
        return {**super()._parameters(), "encoder": None}

    def set_state(self, shape: Any, learned: State) -> Self:
        """Set the state, with the encoder that it holds."""
        self.encoder = learned["encoder_"]
        return super().set_state(shape, learned)

    def _scratch_per_row(self) -> int:
        return SCRATCH_BYTES // max(1, as_encoder(self.encoder).batch // 4)

    def _fill(self, rows: NDArray[Any], out: Rows) -> int:
        signals = self.signals(rows.reshape(len(rows), *self.image_shape_))
        if self.pool != "bispectrum":
            out[:] = signals.mean(axis=1) if self.pool == "mean" else signals.max(axis=1)
        else:
            flat = signals.transpose(0, 2, 1).reshape(-1, signals.shape[1]) / np.float32(self.scale_)
            found = np.empty((len(flat), self.bispectrum_.n_features_out_), dtype=np.float32)
            self.bispectrum_._fill(flat, found)
            # degree 1 again; the constant keeps roots of rounding small
            found *= (np.square(found) + np.float32(1e-9)) ** np.float32(-1 / 3)
            out[:] = found.reshape(len(rows), -1) * np.float32(self.scale_)
        return 0

    def signals(self, images: NDArray[Any]) -> Rows:
        """Rows (n, elements, columns) of the encoder for the images moved by the inverse of each element."""
        found = [self.encoder_.encode(moved) for moved in _moved(images, self.group)]
        return np.stack(found, axis=1)[:, self.group_.inverse]


def _group_of(name: str) -> FiniteGroup:
    if not isinstance(name, str) or not re.fullmatch(r"[CD]\d+|shifts\d+", name):
        raise InputError(f"group must be a name such as C4, C8, D4 or shifts4, got {name!r}.")
    n = check_integer("order of the group", int(re.sub(r"\D", "", name)), minimum=1)
    return ProductGroup(n, n) if name[0] == "s" else {"C": CyclicGroup, "D": DihedralGroup}[name[0]](n)


def _moved(images: NDArray[Any], name: str) -> Iterator[NDArray[Any]]:
    """Images moved by each element of a group, in their order."""
    n, (height, width) = int(re.sub(r"\D", "", name)), images.shape[1:3]
    if name[0] == "s":
        for element in range(n * n):
            down, across = divmod(element, n)
            yield np.roll(images, (down * height // n, across * width // n), axis=(1, 2))
        return
    if n not in (1, 2, 4):  # corners, outside the largest disk, have the level of the border
        planes = images.reshape(*images.shape[:3], -1).astype(np.float32)
        levels = np.asarray(border_levels(planes), dtype=np.float32).reshape(len(images), 1, 1, -1)
        inside = radii(height, width)[:, :, None] <= min(height, width) / 2
        images = np.where(inside, planes, levels).reshape(images.shape)
    for picture in (images, images[:, :, ::-1])[: 1 + (name[0] == "D")]:
        turned = {0: picture}
        for step in range(n):
            quarters, rest = divmod(4 * step, n)  # quarters, and the rest in 1 / (4 n) of a turn
            if rest not in turned:
                maps = rotation_maps(np.full(len(picture), 90 * rest / n), height, width)
                fill = border_levels(picture.reshape(*picture.shape[:3], -1))
                turned[rest] = warp(picture, maps, fill=fill).reshape(picture.shape)
            yield np.rot90(turned[rest], quarters, axes=(1, 2))


def as_encoder(encoder: Any) -> Encoder:
    """An :class:`Encoder` unchanged; anything else as an encoder with default options."""
    return encoder if isinstance(encoder, Encoder) else Encoder(encoder)


def load_encoder(encoder: Any, layout: str | None = None, device: str | None = None) -> _Call:
    """Function, layout and identity of an encoder; one that cannot be loaded is an :class:`InputError`."""
    if isinstance(encoder, (str, Path)):
        text = str(encoder)
        if text.endswith(".onnx"):
            return _onnx_model(user_path(text), layout)
        if not re.fullmatch(r"[\w.]+:\w+", text):
            why = "Names of models are not looked up, since that would fetch their weights"
            advice = f"{why}; make the model and give it as Encoder(model)."
            raise InputError(f"the encoder {text!r} is neither module:name nor a path that ends with .onnx. {advice}")
        module, name = text.split(":")
        try:
            encoder = getattr(importlib.import_module(module), name)
        except Exception as error:  # of any code in the module
            advice = "check its name, install its package, or set PYTHONPATH to the folder of the module"
            raise InputError(f"the encoder {text} cannot be imported ({error!r}); {advice}.") from error
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
    tensors = module.state_dict().items()
    weights = {name: tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy() for name, tensor in tensors}

    def call(batch: Rows) -> Any:
        with torch.inference_mode():
            found = module(torch.from_numpy(batch).to(place))
        if not isinstance(found, torch.Tensor):
            raise InputError(f"{_name_of(module)} gave {type(found).__name__}; wrap it to give a tensor (n, columns).")
        return found.float().cpu().numpy()

    return _Call(call, layout or LAYOUTS[1], content_hash(_name_of(module), repr(module), weights))


def _onnx_model(path: Path, layout: str | None) -> _Call:
    if not path.is_file():
        raise InputError(f"there is no ONNX file {str(path)!r}; check the path.")
    try:
        import onnxruntime
    except ImportError:
        raise InputError("models .onnx need onnxruntime; install it with pip install 'bispectral-ot[onnx]'.") from None
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has exception classes of its own
        raise InputError(f"{path} is not a model that onnxruntime can run ({error}).") from None
    name = session.get_inputs()[0].name
    identity = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    return _Call(lambda batch: session.run(None, {name: batch})[0], layout or LAYOUTS[1], identity)


def _name_of(encoder: Any) -> str:
    return str(getattr(encoder, "__qualname__", type(encoder).__qualname__))


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


def _rows_on_disk(digest: str, keys: list[bytes], new: dict[bytes, Rows] | None = None, name: str = "") -> Any:
    """Rows of some keys in the database of an encoder, to which ``new`` ones are added; warns if it is unusable."""
    path = cache_folder("encodings") / f"{digest}.sqlite"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS rows (key BLOB PRIMARY KEY, row BLOB) WITHOUT ROWID")
            connection.execute("CREATE TABLE IF NOT EXISTS encoder (name TEXT PRIMARY KEY)")
            if new:
                connection.execute("INSERT OR IGNORE INTO encoder VALUES (?)", (name,))
                entries = [(key, row.tobytes()) for key, row in new.items()]
                connection.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?)", entries)
            found = ((key, connection.execute("SELECT row FROM rows WHERE key = ?", (key,)).fetchone()) for key in keys)
            return {key: np.frombuffer(entry[0], dtype=np.float32) for key, entry in found if entry is not None}
    except (OSError, sqlite3.Error) as error:
        problem = f"the cache of encodings {path} cannot be used ({error}); rows are not kept on disk"
        warn(f"{problem}. Delete it with clear_encodings() if it is damaged.")
        return {}
