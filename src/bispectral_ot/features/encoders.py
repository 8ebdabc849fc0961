"""Encoders as features: any network or function of images."""

from __future__ import annotations

import hashlib
import importlib
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.checks import check_choice, check_integer, user_path
from bispectral_ot.datasets.warp import resize_images
from bispectral_ot.errors import InputError
from bispectral_ot.features.encodings import load_rows, save_rows
from bispectral_ot.store import content_hash
from bispectral_ot.transformer import SCRATCH_BYTES, BatchTransformer, Columns, Rows, columns_table, unit_weights

LAYOUTS = ("channels-last", "channels-first")
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_RANGES = (1.0, 255.0, 65535.0)
_MEMORY_BYTES = 2**28  # rows that are kept in memory
_DIFFERENT = 1e-3  # of the norm of a row: an encoder that repeats itself differs by rounding only
_encoding = threading.Lock()  # one batch at a time, whatever thread asks: networks use all cores themselves


class Encoder(BatchTransformer):
    """Features that a network or any function gives for batches of images.

    Images are brought to the range 0 to 1, to ``channels`` channels and to ``size``, normalized, and given to the
    encoder in batches of float32. Rows are cached under a hash of encoder and image (:func:`list_encodings`,
    :func:`clear_encodings`). Weights are never fetched: make the model first.

    Parameters
    ----------
    encoder
        Function of a batch that returns rows (n, columns); a ``torch.nn.Module`` in evaluation mode; ``"module:name"``
        of one of these; or the path of a model ``.onnx``.
    size : int, optional
        Side to which images are resized, with their aspect ratio, on their own background; None to leave them.
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
        Range of the pixels that becomes 0 to 1: 0 and the first of 1, 255, 65535 that no pixel exceeds in ``fit``;
        else the smallest and largest pixel.
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

    raw = True
    default_metric = "sqeuclidean"
    _learned = ("range_", "_digest", "_n_columns")
    range_: tuple[float, float]

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
        self._memory: dict[bytes, Rows] = {}
        self._resolved: _Call | None = None

    def __sklearn_clone__(self) -> Self:
        """A copy that is not fitted and shares the encoder and the rows in memory."""
        copy = type(self)(**self.get_params(deep=False))
        copy._memory = self._memory
        return copy

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_memory": {}, "_resolved": None}

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"Encoder({self.encoder if isinstance(self.encoder, str) else _name_of(self.encoder)})"

    @property
    def _call(self) -> _Call:
        if self._resolved is None:
            self._resolved = _resolved(self.encoder, self.layout, self.device)
        return self._resolved

    def _fit(self, rows: NDArray[Any]) -> None:
        """Learn the range of the images, and check the encoder with one of them."""
        images = rows.reshape(len(rows), *self.image_shape_)
        if self.size is not None:
            check_integer("size", self.size, minimum=1)
        check_integer("batch", self.batch, minimum=1)
        check_integer("channels", self.channels, minimum=1)
        if self.layout is not None:
            check_choice("layout", self.layout, LAYOUTS)
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
        if self.n_encoded_:  # not from the cache: does the encoder repeat itself, alone and in a batch?
            again = self._called(np.repeat(first, 2, axis=0))
            if np.abs(again - found).max() > _DIFFERENT * max(float(np.linalg.norm(found)), 1e-30):
                raise InputError(
                    f"{self!r} gives different rows for the same image, or rows that depend on the batch: dropout or "
                    "batch statistics are on. Call model.eval() first."
                )
        self._n_columns = found.shape[1]
        super()._fit(rows)

    def _prepare(self) -> Columns:
        return unit_weights(columns_table(column=np.arange(self._n_columns)))

    def _found_digest(self) -> str:
        options = repr((self.size, self.normalize, self.channels, self._call.layout, self.range_))
        return content_hash(self._call.identity, self.key, options)

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
        super().set_state(shape, {**learned, "range_": tuple(learned["range_"])})
        if self._found_digest() != self._digest:
            raise InputError(f"{self!r} is not the encoder of the saved model: its weights or options have changed.")
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
        low, high = self.range_
        planes = images.astype(np.float32).reshape(*images.shape[:3], -1)
        planes = ((planes - np.float32(low)) / np.float32(high - low or 1)).clip(0, 1)
        if planes.shape[3] != self.channels:
            planes = np.repeat(planes.mean(axis=3, keepdims=True), self.channels, axis=3)
        if self.size is not None:
            planes = resize_images(planes, (self.size, self.size))
        if self.normalize is not None:
            mean, std = np.array(_IMAGENET if self.normalize == "imagenet" else self.normalize, dtype=np.float32)
            planes = (planes - mean) / std
        if self._call.layout == "channels-first":
            planes = planes.transpose(0, 3, 1, 2)
        return np.ascontiguousarray(planes, dtype=np.float32)

    def _encoded(self, batch: Rows) -> Rows:
        """Rows of a prepared batch; those that are neither in memory nor on disk are computed."""
        keys = [hashlib.blake2b(self._digest.encode() + image.tobytes(), digest_size=16).digest() for image in batch]
        on_disk = self.cache and (self._call.identity is not None or self.key is not None)
        with _encoding:
            missing = [key for key in dict.fromkeys(keys) if key not in self._memory]
            if missing and on_disk:
                self._memory.update(load_rows(self._digest, missing))
                missing = [key for key in missing if key not in self._memory]
            if missing:
                found = self._called(batch[[keys.index(key) for key in missing]])
                new = dict(zip(missing, found, strict=True))
                self._memory.update(new)
                if on_disk:
                    save_rows(self._digest, repr(self), new)
            rows = np.stack([self._memory[key] for key in keys])
            most = max(len(batch), _MEMORY_BYTES // rows[:1].nbytes)
            for key in list(self._memory)[: max(0, len(self._memory) - most)]:  # the oldest
                del self._memory[key]
        return rows

    def _called(self, batch: Rows) -> Rows:
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
        known = getattr(self, "_n_columns", rows.shape[1])
        if rows.shape[1] != known:
            raise InputError(f"{self!r} gave {rows.shape[1]} columns, but {known} for the images before.")
        if not np.isfinite(rows).all():
            bad = int(np.argmin(np.isfinite(rows).all(axis=1)))
            raise InputError(f"{self!r} gave NaN or infinity for image {bad} of a batch of {len(batch)}.")
        return rows


def as_encoder(encoder: Any) -> Encoder:
    """An encoder as it is; a function, module or name as one with the usual options."""
    return encoder if isinstance(encoder, Encoder) else Encoder(encoder)


class _Call(NamedTuple):
    """Function of a batch of float32 arrays, its layout, and the hash of its content, where that is known."""

    function: Callable[[Rows], Any]
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
    tensors = module.state_dict().items()
    weights = {name: tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy() for name, tensor in tensors}

    def call(batch: Rows) -> Any:
        with torch.inference_mode():
            found = module(torch.from_numpy(batch).to(place))
            if not isinstance(found, torch.Tensor):
                raise InputError(
                    f"{_name_of(module)} gave {type(found).__name__}; wrap it to give one tensor (n, columns)."
                )
            return found.float().cpu().numpy()

    return _Call(call, layout or LAYOUTS[1], content_hash(_name_of(module), repr(module), weights))


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
