"""Loss between two batches of images up to a symmetry."""

import warnings
from typing import Any, Self

import torch
from torch import Tensor, nn

from bispectral_ot.errors import DataWarning, InputError
from bispectral_ot.features import GlobalBispectrum, choose_features
from bispectral_ot.torch.invariants import Invariant, to_torch
from bispectral_ot.torch.transport import check_tensors, is_half, sinkhorn_divergence


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
