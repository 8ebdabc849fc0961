"""Invariants as PyTorch modules, made from the tables of fitted NumPy transformers, and a loss up to a symmetry.

Images are (n, height, width) or (n, height, width, channels), as in NumPy. Results have the dtype and the device of the
images. Roots, magnitudes and norms have the subgradient 0 at 0.
"""

import itertools
import math
import warnings
from typing import Any, Self, cast

import numpy as np
import scipy.fft
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from bispectral_ot import features
from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.features import GlobalBispectrum, choose_features
from bispectral_ot.features.kernels import ROUNDING
from bispectral_ot.features.local_bispectrum import CHANNEL_LADDER, EDGE_LADDER, Ladder
from bispectral_ot.torch.transport import check_tensors, is_half, sinkhorn_divergence
from bispectral_ot.transformer import BatchTransformer

_TINY = 1e-20  # added to squares before the roots of local responses, as the compiled kernels do


class Invariant(nn.Module):
    """Module with the tables of a fitted transformer; ``forward`` maps signals (n, ...) to rows (n, columns)."""

    def __init__(self, transformer: BatchTransformer) -> None:
        super().__init__()
        if not hasattr(transformer, "feature_weights_"):
            raise InputError(f"this {type(transformer).__name__} is not fitted; call fit(images) on it first.")
        self.shape, self.normalizes = tuple(transformer.image_shape_), bool(getattr(transformer, "normalize", True))
        self.n_features_out = int(transformer.n_features_out_)
        self.keep(feature_weights=transformer.feature_weights_)
        if cells := getattr(transformer, "cells_", None):
            self.keep(down=_averaging(cells[0]), across=_averaging(cells[1]))

    def keep(self, **tables: NDArray[Any]) -> None:
        """Register tables as buffers: they move with the module and are not trained."""
        for name, array in tables.items():
            self.register_buffer(name, torch.tensor(np.asarray(array)), persistent=False)

    def table(self, name: str, like: Tensor) -> Tensor:
        """Table with the dtype and device of a tensor; indices and masks keep their dtype."""
        found: Tensor = getattr(self, name)
        if found.is_complex():
            return found.to(device=like.device, dtype=torch.promote_types(like.dtype, torch.complex64))
        return found.to(like) if found.is_floating_point() else found.to(like.device)

    def __call__(self, x: Tensor) -> Tensor:
        """Rows in the precision of the signals; half precision is computed in float32."""
        rows: Tensor = super().__call__(x.float() if is_half(x) else x)
        return rows.to(x.dtype)

    def signals(self, x: Tensor) -> Tensor:
        """Signals (n, channels, pixels) of the fitted size."""
        check_tensors(signals=x)
        shape, own = tuple(x.shape[1:]), self.shape
        if (*shape, 1)[: max(len(own), 3)] != (*own, 1)[: max(len(own), 3)] and shape != own:
            is_first = len(shape) == 3 and (*shape[1:], shape[0]) == (*own, 1)[:3]
            fix = "put channels last with x.permute(0, 2, 3, 1)" if is_first else "resize them, or fit to this size"
            raise InputError(f"expected signals (n, {', '.join(map(str, own))}), got {tuple(x.shape)}; {fix}.")
        channels = own[2] if len(own) == 3 else 1
        return x.reshape(len(x), -1, channels).mT

    def reduced(self, planes: Tensor) -> Tensor:
        """Planes (n, channels, height, width), averaged over cells if the transformer does so."""
        if not hasattr(self, "down"):
            return planes
        return self.table("down", planes) @ planes @ self.table("across", planes).mT

    def sampled(self, planes: Tensor, grid: str, n_angles: int) -> Tensor:
        """Samples (..., rings, angles) of planes (..., pixels) on a polar grid: weighted sums of four pixels each."""
        pixels, weights = self.table(grid, planes), self.table(f"{grid}_weights", planes)
        samples = [planes[..., pixels[entry]] * weights[entry] for entry in range(4)]
        return (samples[0] + samples[1] + samples[2] + samples[3]).unflatten(-1, (-1, n_angles))

    def finished(self, values: Tensor) -> Tensor:
        """Invariants of degree three at their own scale, or with norm 1, as the transformer has them."""
        return self.normalized(values, self.table("feature_weights", values)) if self.normalizes else values

    def normalized(self, rows: Tensor, weights: Tensor, length: float = 1.0) -> Tensor:
        """Rows of weighted norm ``length``; rows whose norm is only rounding are zero."""
        squares = (rows.square() * weights).sum(-1, keepdim=True)
        vanishing = squares <= ROUNDING**2
        norm = torch.where(vanishing, 1, squares).sqrt()
        return torch.where(vanishing, 0, rows * (length / norm))


def _unit_scaled(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Signals divided by a power of two near their largest magnitude, which rounds nothing away."""
    peak = x.detach().abs().amax(dims, keepdim=True)
    exponent = torch.frexp(torch.where(peak > 0, peak, 1)).exponent
    return x / torch.ldexp(torch.ones_like(peak), exponent - 1)


def _parts(products: Tensor, n_real: int) -> Tensor:
    """Real parts of all complex products (n, ...), then imaginary parts of those from ``n_real`` on."""
    return torch.cat([products.real, products.imag[..., n_real:]], dim=-1)


def _compressed(z: Tensor, power: float) -> Tensor:
    """``z |z|^(power - 1)``."""
    squares = z.real.square() + z.imag.square()
    factor = torch.where(squares > 0, squares, 1) ** ((power - 1) / 2) * (squares > 0)
    return z * factor


def _median(values: Tensor) -> Tensor:
    """Median along the last axis; the mean of the middle two for an even number."""
    ordered, n = values.sort(-1).values, values.shape[-1]
    return (ordered[..., (n - 1) // 2] + ordered[..., n // 2]) / 2


def _averaging(edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Matrix (cells, pixels) of means over cells with these edges (cells, 2)."""
    size, start, stop = round(float(edges[-1, 1])), edges[:, :1], edges[:, 1:]
    pixel = np.arange(size)
    shared: NDArray[np.float64] = np.clip(np.minimum(pixel + 1, stop) - np.maximum(pixel, start), 0, None)
    return shared / (stop - start)


def _unit_largest(spectra: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Coefficients divided by their largest magnitude, taken as a constant: only the direction of a row is kept."""
    largest = spectra.detach().abs().amax(dims, keepdim=True)
    return spectra / torch.where(largest > 0, largest, 1)


class _Orbits(Invariant):  # rings of an image, or low frequencies; one column per symmetry orbit
    def __init__(self, transformer: features.RingBispectrum | features.TranslationBispectrum) -> None:
        super().__init__(transformer)
        orbits = transformer.orbits_
        self.n_real = orbits.n_real
        self.keep(triples=orbits.triples, multiplicity=orbits.multiplicity.astype(np.float64))
        self.n_angles = getattr(transformer, "n_angles", None)
        if isinstance(transformer, features.RingBispectrum):
            self.keep(rings=transformer.sampler_.pixels, rings_weights=transformer.sampler_.weights)
        else:
            self.keep(band=np.stack(transformer.band_))

    def forward(self, x: Tensor) -> Tensor:
        images = _unit_scaled(self.signals(x), (2,))
        if self.n_angles:
            spectra = torch.fft.fft(self.sampled(images, "rings", self.n_angles))
        else:
            rows, columns = self.table("band", x)
            spectra = torch.fft.fft2(images.unflatten(2, self.shape[:2]))[..., rows, columns]
        spectra = _unit_largest(spectra, tuple(range(2, spectra.ndim)))
        i, j, k = self.table("triples", x)
        products = _parts(spectra[..., i] * spectra[..., j] * spectra[..., k], self.n_real)
        weights = self.table("multiplicity", products).expand(products.shape[2:]).flatten()
        return self.normalized(products.flatten(2), weights).flatten(1)


class _Global(Invariant):
    def __init__(self, transformer: features.GlobalBispectrum) -> None:
        super().__init__(transformer)
        self.settings = transformer.get_params()
        self.edges, self.n_fields = transformer.edge_weight > 0, int(transformer._n_fields)
        self.keep(border=transformer.border_.pixels, border_weights=transformer.border_.weights)
        self.keep(rings=transformer.sampler_.pixels, rings_weights=transformer.sampler_.weights)
        for name, matrices in transformer.filters_.items():
            self.keep(**{f"{name}{axis}": matrix for axis, matrix in enumerate(matrices)})
        self.keep(inside=transformer.inside_, ring_weights=transformer._ring_weights)
        self.parts = [(part.n_real, f"part{number}") for number, part in enumerate(transformer._parts)]
        self.keep(**{f"part{number}": part.positions for number, part in enumerate(transformer._parts)})
        self.n_intensity = sum(len(part.weights) for part in transformer._parts[:2])
        self.keep(product_weights=transformer.product_weights_)
        self.mirrors = self.settings["symmetry"] != "rotation"
        if self.mirrors:
            odd, signs = np.flatnonzero(transformer.is_odd_), np.diag(transformer.mirror_signs_.astype(np.float64))
            self.keep(odd=odd, even=np.flatnonzero(~transformer.is_odd_), dct=scipy.fft.dct(signs, norm="ortho"))
            self.keep(odd_scale=np.sqrt(transformer.product_weights_[odd] / 2))

    def coefficients(self, x: Tensor) -> Tensor:
        """Coefficients (n, frequencies, fields, rings)."""
        planes = self._contents(self.signals(x))
        channels = planes.shape[1]
        fields = [self._filtered(planes, "blur", "blur")]
        if self.edges:
            across, down = self._filtered(planes, "smooth", "slope"), self._filtered(planes, "slope", "smooth")
            fields.append(self._filtered(_edge_fields(across, down), "pool", "pool"))
        n_angles = self.settings["n_angles"]
        samples = self.sampled(torch.cat(fields, 1).flatten(2), "rings", n_angles)
        if self.edges:
            # rotate the vectors (cosine, sine) of edges back to the ray from the centre
            angles = 2 * math.pi / n_angles * torch.arange(n_angles, dtype=samples.dtype, device=samples.device)
            turns = torch.stack([torch.exp(-2j * angles), torch.exp(-4j * angles)])[:, None]
            first, second = [channels + 1, channels + 3], [channels + 2, channels + 4]
            vectors = torch.view_as_real(torch.complex(samples[:, first], samples[:, second]) * turns)
            samples = torch.cat([samples[:, : channels + 1], vectors.movedim(-1, 2).flatten(1, 2)], 1)
        frequencies = self.settings["max_frequency"] + 1
        spectra = torch.fft.rfft(samples)[..., :frequencies].permute(0, 3, 1, 2)
        spectra = spectra * (self.table("ring_weights", x) / n_angles)
        if not self.edges:
            return spectra
        turned = torch.ones(self.n_fields, dtype=spectra.dtype, device=x.device)
        turned[[channels + 2, channels + 4]] = 1j  # mirrors conjugate all coefficients alike
        return spectra * turned[:, None]

    def _contents(self, images: Tensor) -> Tensor:
        """Planes (n, channels, height, width) of cells with the background subtracted."""
        images = _unit_scaled(self.reduced(images.unflatten(2, self.shape[:2])).flatten(2), (1, 2))
        background = _median(self.sampled(images, "border", self.settings["n_angles"]).flatten(2))
        contents = (images - background[..., None]) * self.table("inside", images)
        contents = torch.where(contents.abs() < ROUNDING, 0, contents)
        return contents.unflatten(2, (len(self.table("blur0", images)), len(self.table("blur1", images))))

    def _filtered(self, planes: Tensor, down: str, across: str) -> Tensor:
        return self.table(f"{down}0", planes) @ planes @ self.table(f"{across}1", planes).mT

    def forward(self, x: Tensor) -> Tensor:
        settings, coefficients, blocks = self.settings, self.coefficients(x), []
        channels = self.n_fields - (5 if self.edges else 0)
        if settings["n_bands"]:
            radial = coefficients[:, :, :channels].mean(2)
            cuts = np.linspace(0, settings["n_rings"], settings["n_bands"] + 1).astype(int)
            bands = [radial[:, :, start:stop].mean(2) for start, stop in itertools.pairwise(cuts)]
            means = _compressed(torch.stack(bands, 2).flatten(1), 2 * settings["power"] / 3)
            i, j, k = self.table(self.parts[0][1], coefficients.real)
            products = settings["triple_weight"] * means[:, i] * means[:, j] * means[:, k].conj()
            blocks.append(_parts(products, self.parts[0][0]))
        compressed = _compressed(coefficients.flatten(1), settings["power"])
        for n_real, name in self.parts[1:]:
            first, second = self.table(name, coefficients.real)
            blocks.append(_parts(compressed[:, first] * compressed[:, second].conj(), n_real))
        rows, weights = torch.cat(blocks, 1), self.table("product_weights", coefficients.real)
        edge_weight, products = settings["edge_weight"], []
        for part, share in ((slice(self.n_intensity), 1), (slice(self.n_intensity, None), edge_weight)):
            products.append(self.normalized(rows[:, part], weights[part], share / math.hypot(1, edge_weight)))
        rows = torch.cat(products, 1)
        if not self.mirrors:
            return rows
        odd = rows[:, self.table("odd", weights)] * self.table("odd_scale", weights)
        return torch.cat([rows[:, self.table("even", weights)], odd.abs(), (odd @ self.table("dct", weights)).abs()], 1)


def _edge_fields(across: Tensor, down: Tensor, tiny: float = 0.0) -> Tensor:
    """Roots of gradients' magnitudes times 1, cos 2p, sin 2p, cos 4p, sin 4p, summed over channels: (n, 5, ...)."""
    squares = across.square() + down.square() + tiny
    safe = torch.where(squares > 0, squares, 1)
    strength = safe.sqrt().sqrt() * (squares > 0)
    cosine, sine = (across.square() - down.square()) / safe, 2 * across * down / safe
    fields = (torch.ones_like(cosine), cosine, sine, cosine.square() - sine.square(), 2 * sine * cosine)
    return torch.stack([(strength * each).sum(1) for each in fields], 1)


class _Local(Invariant):
    def __init__(self, transformer: features.LocalBispectrum) -> None:
        super().__init__(transformer)
        self.ignores = transformer.intensity == "ignore"
        self.scale = float(transformer.scale_)
        self.n_channel_levels = int(transformer._n_channel_levels)
        for name in ("contrasts", "window", "circle", "disk", "bins", "slopes", "means", "deviations"):
            self.keep(**{name: getattr(transformer, f"{name}_")})
        self.n_levels = len(transformer.disks_)
        grid = transformer.window_.shape
        for level, (start, stop) in enumerate(transformer.disks_):
            columns = np.arange(grid[1])
            disk = (columns >= start[:, None]) & (columns < stop[:, None])
            self.keep(**{f"disk{level}": np.flatnonzero(disk)})
            grid = (grid[0] + 1) // 2, (grid[1] + 1) // 2
        table = transformer.index_map_
        self.keep(odd=(table["part"] == 1) & (table["spread"] == 0) & ("reflection" in transformer.symmetry))
        step, taps = np.array([[-1, 0, 1], [-4, 0, 4], [-1, 0, 1]]) / 12, np.array([1, 4, 6, 4, 1]) / 16
        self.keep(differences=np.stack([step, step.T])[:, None], taps=np.outer(taps, taps)[None, None])

    def forward(self, x: Tensor) -> Tensor:
        inside, contents = self._contents(self.signals(x))
        n, channels = contents.shape[:2]
        bins, slopes = self.table("bins", x), self.table("slopes", x)
        cuts = range(bins.shape[1])
        shares = [(slopes[:, None] * (inside - bins[:, cut, None]) + 0.5).clamp(0, 1).mean(2) for cut in cuts]
        blocks = [torch.stack(shares, 2).flatten(1)] if shares else []
        pyramid = self._pyramid(contents, self.n_channel_levels)
        for level, planes in enumerate(pyramid):
            one_each = planes.flatten(0, 1)[:, None]
            blocks.append(self._pooled(one_each, CHANNEL_LADDER, level).unflatten(0, (n, channels)).flatten(1))
        if self.n_levels > 1:
            edges = self._pyramid(_edge_fields(*self._differences(pyramid[0]), tiny=_TINY), self.n_levels)
            blocks += [self._pooled(edges[level], EDGE_LADDER, level) for level in range(1, self.n_levels)]
        rows = torch.cat(blocks, 1)
        rows = torch.where(self.table("odd", x), rows.abs(), rows)
        return (rows - self.table("means", x)) / self.table("deviations", x)

    def _contents(self, images: Tensor) -> tuple[Tensor, Tensor]:
        scaled = _unit_scaled(images, (1, 2)) if self.ignores else images / self.scale
        planes = self.reduced(scaled.unflatten(2, self.shape[:2]))
        if planes.shape[1] > 1:
            planes = torch.einsum("ck,nkhw->nchw", self.table("contrasts", images), planes)
        flat = planes.flatten(2)
        contents = flat - _median(flat[:, :, self.table("circle", images)])[..., None]
        contents = torch.where(contents.abs() < ROUNDING, 0, contents)
        inside = (contents if self.ignores else flat)[:, :, self.table("disk", images)]
        if self.ignores:
            squares = inside.square().mean((1, 2), keepdim=True)
            sizes = torch.where(squares > 0, squares, 1).sqrt()
            inside, contents = inside / sizes, contents / sizes
        window = self.table("window", images)
        return inside, (contents * window.flatten()).unflatten(2, window.shape)

    def _pyramid(self, planes: Tensor, n_levels: int) -> list[Tensor]:
        """Smoothed planes (n, k, height, width) of each level, every one half as fine as the one before."""
        levels: list[Tensor] = []
        for level in range(n_levels):
            if level:
                planes = _halved(_halved(levels[-1], 2), 3)
            flat = functional.conv2d(planes.flatten(0, 1)[:, None], self.table("taps", planes), padding=2)
            levels.append(flat[:, 0].unflatten(0, planes.shape[:2]))
        return levels

    def _differences(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        """Derivatives across and down of planes (..., height, width)."""
        flat = planes.reshape(-1, 1, *planes.shape[-2:])
        both = functional.conv2d(flat, self.table("differences", planes), padding=1)
        return both[:, 0].reshape(planes.shape), both[:, 1].reshape(planes.shape)

    def _pooled(self, planes: Tensor, ladder: Ladder, level: int) -> Tensor:
        """Means and deviations over the disk of the invariants of planes (n, k, height, width)."""
        slots: dict[int, tuple[Tensor, Tensor]] = {}
        for slot, source, other, sign in ladder.steps.tolist():
            if sign == 0:
                imaginary = planes[:, other] if other >= 0 else torch.zeros_like(planes[:, source])
                slots[slot] = planes[:, source], imaginary
            else:
                (rx, ry), (ix, iy) = (self._differences(part) for part in slots[source])
                slots[slot] = rx - sign * iy, ix + sign * ry
        disk = self.table(f"disk{level}", planes)
        responses = (torch.stack([slots[r][part] for r in range(len(ladder.fields))], 1) for part in (0, 1))
        real, imag = (each.flatten(2)[:, :, disk] for each in responses)
        sizes = (real.square() + imag.square() + _TINY).sqrt()
        halves = torch.complex(real, imag) / sizes.sqrt()
        a, b = (torch.as_tensor(column, device=planes.device) for column in ladder.pairs.T)
        i, j, k = (torch.as_tensor(column, device=planes.device) for column in ladder.triples.T)
        quarters = halves / sizes.sqrt().sqrt()
        pairs, triples = halves[:, a] * halves[:, b].conj(), quarters[:, i] * quarters[:, j] * halves[:, k].conj()
        products = torch.view_as_real(torch.cat([pairs, triples], 1)).transpose(2, 3).flatten(1, 2)
        values = torch.cat([sizes, products], 1)
        means, variances = values.mean(2), values.var(2, correction=0)
        spread = torch.where(variances > 0, variances, 1).sqrt() * (variances > 0)
        return torch.cat([means, spread], 1)


def _halved(planes: Tensor, dim: int) -> Tensor:
    """Every second pixel along an odd side, the mean of two neighbours along an even one."""
    if planes.shape[dim] % 2:
        return planes.index_select(dim, torch.arange(0, planes.shape[dim], 2, device=planes.device))
    return planes.unflatten(dim, (-1, 2)).mean(dim + 1)


class _Combined(Invariant):
    def __init__(self, transformer: features.CombinedBispectrum) -> None:
        super().__init__(transformer)
        plain = "rotation-reflection" if "reflection" in transformer.symmetry else "rotation"
        if transformer.symmetry != plain:
            fix = f"centre them first and take {plain!r}, or take the features LocalBispectrum"
            raise InputError(f"the symmetry {transformer.symmetry!r} centres images, which has no gradient; {fix}.")
        if transformer.intensity == "affine":
            raise InputError("intensity='affine' has no PyTorch module; take 'ignore' or 'keep'.")
        local, whole = transformer.parts_
        self.local, self.whole = _Local(local), _Global(whole)
        self.keep(of_local=transformer.projections_[0], of_whole=transformer.projections_[1])

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.local(x) @ self.table("of_local", x), self.whole(x) @ self.table("of_whole", x)], 1)


class _Group(Invariant):
    def __init__(self, transformer: features.GroupBispectrum) -> None:
        super().__init__(transformer)
        columns, groups = transformer.columns_, transformer._kept_blocks
        self.keep(fourier=transformer._fourier_matrix, positions=transformer._positions)
        self.keep(imaginary=columns.part.astype(bool), column_scale=columns.scale)
        self.n_groups = len(groups)
        for number, blocks in enumerate(groups):
            self.keep(**{f"tensor{number}": blocks.tensor.astype(np.complex128)})
            self.keep(**{f"place{number}_{k}": place for k, place in enumerate(blocks[3:])})

    def forward(self, x: Tensor) -> Tensor:
        fourier = self.table("fourier", x)
        coefficients = self.signals(x).flatten(1).to(fourier.dtype) @ fourier
        if self.normalizes:
            coefficients = _unit_largest(coefficients, (1,))
        entries = []
        for number in range(self.n_groups):
            first, second, third = (coefficients[:, self.table(f"place{number}_{place}", x)] for place in range(3))
            tensor = self.table(f"tensor{number}", x)
            entries.append(torch.einsum("bpqu,nbip,nbjq,nbku->nbijk", tensor, first, second, third.conj()).flatten(1))
        values = torch.cat(entries, 1)[:, self.table("positions", x)]
        real = torch.where(self.table("imaginary", x), values.imag, values.real)
        return self.finished(real * self.table("column_scale", x))


class _Sphere(Invariant):
    def __init__(self, transformer: features.SphereBispectrum) -> None:
        super().__init__(transformer)
        terms = transformer.invariants_
        self.keep(analysis=transformer.analysis_, owner=terms.owner, entries=terms.entries.T, values=terms.values)

    def forward(self, x: Tensor) -> Tensor:
        coefficients = (self.signals(x) @ self.table("analysis", x)).flatten(1)
        if self.normalizes:
            coefficients = _unit_largest(coefficients, (1,))
        first, second, third = self.table("entries", x)
        products = coefficients[:, first] * coefficients[:, second] * coefficients[:, third] * self.table("values", x)
        values = torch.zeros(len(x), self.n_features_out, dtype=x.dtype, device=x.device)
        return self.finished(values.index_add(1, self.table("owner", x), products))


_MODULES = {
    features.RingBispectrum: _Orbits,
    features.TranslationBispectrum: _Orbits,
    features.GlobalBispectrum: _Global,
    features.LocalBispectrum: _Local,
    features.CombinedBispectrum: _Combined,
    features.GroupBispectrum: _Group,
    features.CyclicBispectrum: _Group,
    features.SphereBispectrum: _Sphere,
}


def to_torch(transformer: BatchTransformer) -> Invariant:
    """PyTorch module that computes the features of a fitted transformer, with gradients.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from bispectral_ot.features import GlobalBispectrum
    >>> from bispectral_ot.torch import to_torch
    >>> images = np.random.default_rng(0).random((4, 28, 28)).astype(np.float32)
    >>> numpy = GlobalBispectrum().fit(images)
    >>> rows = to_torch(numpy)(torch.tensor(images))
    >>> bool(np.allclose(rows, numpy.transform(images), atol=1e-5))
    True
    """
    module: Any = _MODULES.get(type(transformer))
    if module is None:
        known = ", ".join(kind.__name__ for kind in _MODULES)
        raise InputError(f"{type(transformer).__name__} has no PyTorch module; choose one of {known}.")
    return cast(Invariant, module(transformer))


class BispectralLoss(nn.Module):
    """Sinkhorn divergence between the invariants of two batches of images.

    The features are fitted once, to reference images: by :meth:`fit`, or else to the target batch of the first call.

    Parameters
    ----------
    symmetry : Transformations to ignore, as in :func:`~bispectral_ot.match`.
    features : str or transformer, optional
        Features with a PyTorch module (see :func:`to_torch`). The default for rotations is
        ``GlobalBispectrum(n_rings=6, power=0.75)``: wider rings and less compression hide what interpolation changes.
    reg, unbalanced, tol, max_iter
        See :func:`sinkhorn_divergence`; the first two are relative to the mean cost between reference images.

    Examples
    --------
    >>> import torch
    >>> from bispectral_ot.torch import BispectralLoss
    >>> images = torch.rand(20, 16, 16, generator=torch.Generator().manual_seed(0))
    >>> loss = BispectralLoss().fit(images)
    >>> rotated, other = torch.rot90(images, dims=(1, 2)), 1 - images.square()
    >>> bool(loss(rotated, images) < 0.01 * loss(other, images))
    True
    """

    def __init__(
        self,
        symmetry: str = "rotation",
        *,
        features: Any = None,
        reg: float = 0.05,
        unbalanced: float | None = None,
        tol: float = 1e-4,
        max_iter: int = 1000,
    ) -> None:
        super().__init__()
        if features is None and symmetry in ("rotation", "rotation-reflection"):
            features = GlobalBispectrum(symmetry=symmetry, n_rings=6, power=0.75)
        self.transformer: Any = choose_features(features, symmetry=symmetry).transformer
        self.reg, self.unbalanced, self.tol, self.max_iter = reg, unbalanced, tol, max_iter
        self.invariant: Invariant | None = None
        self.scale = 1.0

    def fit(self, images: Tensor) -> Self:
        """Fit the features and the scale of the cost to reference images (n, height, width[, channels])."""
        images = images.float() if is_half(images) else images
        check_tensors(images=images)
        if images.ndim not in (3, 4) or len(images) < 2 or images.is_meta:
            found = f"{tuple(images.shape)} on {images.device}; give a batch, and one that has values"
            raise InputError(f"expected at least two reference images (n, height, width[, channels]), got {found}.")
        with warnings.catch_warnings(action="ignore", category=DataWarning):  # constant images have zero features
            self.invariant = to_torch(self.transformer.fit(images.detach().cpu().numpy())).to(images.device)
        with torch.no_grad():
            rows = self._weighted(images[:512])
            self.scale = float(2 * (rows - rows.mean(0)).square().sum(1).mean()) or 1.0
        return self

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Divergence of two batches, relative to the mean cost between reference images; 0 for equal content."""
        check_tensors(source=source, target=target)
        if self.invariant is None:
            self.fit(target)
        value = sinkhorn_divergence(
            self._weighted(source),
            self._weighted(target),
            reg=self.reg * self.scale,
            unbalanced=None if self.unbalanced is None else self.unbalanced * self.scale,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        return value / self.scale

    def _weighted(self, images: Tensor) -> Tensor:
        """Features times the roots of their weights: squared distances are those of the unfolded invariants."""
        assert self.invariant is not None
        rows: Tensor = self.invariant(images)
        return rows * self.invariant.table("feature_weights", rows).sqrt()
