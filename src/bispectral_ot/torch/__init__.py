"""Differentiable invariants and transport for PyTorch (extra ``torch``)."""

from bispectral_ot.torch.invariants import BispectralLoss, Invariant, to_torch
from bispectral_ot.torch.transport import sinkhorn_divergence

__all__ = ["BispectralLoss", "Invariant", "sinkhorn_divergence", "to_torch"]
