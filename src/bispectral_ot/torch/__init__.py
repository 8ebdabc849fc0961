"""Differentiable invariants and transport for PyTorch (extra ``torch``)."""

from bispectral_ot.torch.invariants import Invariant, to_torch
from bispectral_ot.torch.loss import BispectralLoss
from bispectral_ot.torch.transport import sinkhorn_divergence

__all__ = ["BispectralLoss", "Invariant", "sinkhorn_divergence", "to_torch"]
