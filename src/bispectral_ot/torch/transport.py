"""Sinkhorn divergence of point clouds as a differentiable function.

The potentials are found without a graph. At these potentials the derivatives with respect to points and weights are
those of the optimum (envelope theorem): no iteration is differentiated, and memory is that of one block of the cost.
"""

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bispectral_ot.errors import InputError, NotConvergedWarning, warn

_BLOCK = 2**22  # entries of the cost matrix that are computed at a time
_KEPT = 2**24  # entries up to which the cost matrix is kept between iterations


def _costs(x: Tensor, y: Tensor) -> Tensor:
    """Squared Euclidean distances (batch, n, m)."""
    return (x.square().sum(-1)[..., :, None] + y.square().sum(-1)[..., None, :] - 2 * x @ y.mT).clamp_min(0)


class _Problem(NamedTuple):
    """Points (batch, n, d) and (batch, m, d), weights (batch, n) and (batch, m), regularization (batch, 1)."""

    x: Tensor
    y: Tensor
    a: Tensor
    b: Tensor
    reg: Tensor
    penalty: float | None
    tol: float
    max_iter: int
    matrix: Tensor | None = None

    def blocks(self) -> Iterator[slice]:
        """Rows of x whose part of the cost matrix fits into a block."""
        step = max(1, _BLOCK // (len(self.x) * self.y.shape[1]))
        return (slice(start, start + step) for start in range(0, self.x.shape[1], step))

    def costs(self, rows: slice) -> Tensor:
        return _costs(self.x[:, rows], self.y) if self.matrix is None else self.matrix[:, rows]

    def updated(self, g: Tensor, reg: Tensor) -> Tensor:
        """Potential ``-reg log sum_j b_j exp((g_j - C_ij) / reg)`` of each row, damped by a penalty of the marginal."""
        h = (self.b.log() + g / reg)[:, None, :]
        parts = [torch.logsumexp(h - self.costs(rows) / reg[..., None], dim=2) for rows in self.blocks()]
        damping = 1.0 if self.penalty is None else self.penalty / (self.penalty + reg)
        return -reg * damping * torch.cat(parts, dim=1)

    def dual(self, potential: Tensor) -> Tensor:
        """Dual of a marginal: the potential itself, or that of a Kullback-Leibler penalty."""
        return potential if self.penalty is None else self.penalty * (1 - torch.exp(-potential / self.penalty))


class _Transport(torch.autograd.Function):
    """Entropic transport cost of each problem; gradients of points and weights are found with the value."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        x, y, a, b, rest, symmetric = inputs
        problem = _Problem(x, y, a, b, *rest)
        if len(x) * x.shape[1] * y.shape[1] <= _KEPT:
            problem = problem._replace(matrix=_costs(x, y))
        is_compiled = x.device.type == "cpu" and x.dtype == torch.float32 and len(x) == 1
        f, g, error = (_compiled_potentials if is_compiled else _solve)(problem, symmetric)
        if error > problem.tol:
            found = f"a marginal error of {error:.1e} after {problem.max_iter} iterations, above {problem.tol:.0e}"
            warn(f"the Sinkhorn divergence has {found}; raise max_iter or reg.", NotConvergedWarning)
        grads, masses, target = [torch.zeros_like(x), torch.zeros_like(y)], [], torch.zeros_like(b)
        for rows in problem.blocks():
            exponents = (f[:, rows, None] + g[:, None, :] - problem.costs(rows)) / problem.reg[..., None]
            plan = torch.exp(exponents) * b[:, None, :]  # divided by the weights of its rows
            masses.append(plan.sum(2))
            plan *= a[:, rows, None]
            received = plan.sum(1)
            target += received / b
            if ctx.needs_input_grad[0]:
                grads[0][:, rows] = 2 * (x[:, rows] * plan.sum(2, keepdim=True) - plan @ y)
            if ctx.needs_input_grad[1] and not symmetric:
                grads[1] += 2 * (y * received[..., None] - plan.mT @ x[:, rows])
        source, reg = torch.cat(masses, 1), problem.reg
        grad_a = problem.dual(f) - reg * (source - b.sum(1, keepdim=True))
        grad_b = problem.dual(g) - reg * (target - a.sum(1, keepdim=True))
        ctx.save_for_backward(*((2 * grads[0], 2 * grad_a) if symmetric else (*grads, grad_a, grad_b)))
        ctx.symmetric = symmetric
        total = (a * source).sum(1) - a.sum(1) * b.sum(1)
        return (a * problem.dual(f)).sum(1) + (b * problem.dual(g)).sum(1) - reg[:, 0] * total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        saved = [part * grads[0].reshape(-1, *[1] * (part.ndim - 1)) for part in ctx.saved_tensors]
        return (saved[0], None, saved[1], None, None, None) if ctx.symmetric else (*saved, None, None)


def _compiled_potentials(problem: _Problem, symmetric: bool) -> tuple[Tensor, Tensor, float]:
    """Potentials and marginal error by the compiled solver of this package."""
    from bispectral_ot.costs import Cost
    from bispectral_ot.transport import Sinkhorn

    a, b = (weights[0].double().numpy() for weights in (problem.a, problem.b))
    if problem.matrix is None:
        cost = Cost(problem.x[0].numpy(), problem.y[0].numpy(), "sqeuclidean")
    else:
        cost = Cost.from_matrix(problem.matrix[0].numpy())
    epsilon, scale = float(problem.reg), cost.scale
    lam = None if problem.penalty is None else problem.penalty / scale
    solver = Sinkhorn(reg=epsilon / scale, tol=problem.tol, max_iter=problem.max_iter, unbalanced=lam)
    mass = a.sum() if lam is None else 1.0
    a, b = (a / a.sum(), b / b.sum()) if lam is None else (a, b)
    with warnings.catch_warnings(action="ignore", category=NotConvergedWarning):  # the caller warns
        plan = solver.solve(cost, a, b, symmetric=symmetric)
    potentials = plan.source_potential - epsilon * np.log(a * mass), plan.target_potential - epsilon * np.log(b)
    f, g = (torch.from_numpy(each).to(problem.x.dtype)[None] for each in potentials)
    return f, g, plan.marginal_error


def _solve(problem: _Problem, symmetric: bool) -> tuple[Tensor, Tensor, float]:
    """Potentials (batch, n) and (batch, m), and the largest marginal error; annealed from the size of the cost."""
    x, y, a, b, reg, *_, matrix = problem
    back = problem._replace(x=y, y=x, a=b, b=a, matrix=None if matrix is None else matrix.mT)
    f, g = torch.zeros_like(a), torch.zeros_like(b)
    extent = torch.stack([problem.costs(rows).amax((1, 2)) for rows in problem.blocks()]).amax(0)
    current, error = torch.maximum(extent[:, None], reg), float("inf")
    for iteration in range(problem.max_iter):
        new = problem.updated(g, current)
        change = (new - f).abs() / current
        f = (f + new) / 2 if symmetric else new
        g = f if symmetric else back.updated(f, current)
        if iteration % 5 == 0 and bool((current == reg).all()):
            # exp(change) - 1 is the relative error of each row's mass before the update
            error = float((a * torch.expm1(change.clamp_max(50))).sum(1).max())
            if error <= problem.tol:
                break
        current = torch.maximum(current / 4, reg)
    return f, g, error


def sinkhorn_divergence(
    x: Tensor,
    y: Tensor,
    *,
    weights: tuple[Tensor | None, Tensor | None] = (None, None),
    reg: float | None = None,
    unbalanced: float | None = None,
    debias: bool = True,
    tol: float = 1e-4,
    max_iter: int = 1000,
) -> Tensor:
    r"""Sinkhorn divergence between weighted points (a scalar, or one per problem), with gradients for both.

    .. math::
        S(a, b) = OT_\epsilon(a, b) - \tfrac12 OT_\epsilon(a, a) - \tfrac12 OT_\epsilon(b, b), \quad
        OT_\epsilon(a, b) = \min_P \langle P, C \rangle + \epsilon\, KL(P \,|\, a b^T),

    where P has the marginals a and b. With ``unbalanced``, other marginals cost this factor times their KL divergence.

    Parameters
    ----------
    x, y : Tensor of shape (n, d) and (m, d), or (batch, n, d) and (batch, m, d)
        Points; with a batch, as many problems are solved at once.
    weights : pair of Tensor of shape (n,) and (m,), or with a batch, or None
        Positive masses of x and y; None for uniform ones with sum 1.
    reg : Regularization in units of the cost, the squared distance; by default 0.05 times its mean, as a constant.
    unbalanced : Penalty of the marginals; None fixes them.
    debias : Subtract the two self-terms, so that the value of a set with itself is zero.
    tol, max_iter : Marginal error (total variation) at which iterations stop, and their maximum number.

    Examples
    --------
    >>> import torch
    >>> from bispectral_ot.torch import sinkhorn_divergence
    >>> x = torch.tensor([[0.0], [1.0]], requires_grad=True)
    >>> value = sinkhorn_divergence(x, torch.tensor([[2.0], [3.0]]), reg=0.01)
    >>> value.backward()
    >>> round(value.item(), 3), x.grad.round(decimals=3).flatten().tolist()
    (4.0, [-2.0, -2.0])
    """
    if reg is not None and not reg > 0:
        raise InputError(f"reg must be positive, got {reg!r}.")
    kind, batched = x.dtype, x.ndim == 3
    x, y, a, b = _checked(x, y, weights)
    if x.is_meta:
        return x.new_empty(len(x) if batched else (), dtype=kind)
    centre = torch.cat([x, y], dim=1).detach().mean(1, keepdim=True)
    x, y = x - centre, y - centre  # far from zero, squared distances would be rounded away
    if unbalanced is None and not torch.allclose(a.sum(1), b.sum(1), rtol=1e-4):
        sums = f"{a.sum(1).tolist()} and {b.sum(1).tolist()}; divide each by its sum, or give unbalanced="
        raise InputError(f"weights must have the same sum on both sides, got {sums}.")
    with torch.no_grad():
        epsilon = x.new_full((len(x),), 0.0 if reg is None else reg)
        if reg is None:
            some = [points[:, :: max(1, points.shape[1] // 512)] for points in (x, y)]
            epsilon = 0.05 * _costs(*some).mean((1, 2))
        epsilon = epsilon.clamp_min(torch.finfo(x.dtype).tiny ** 0.5)
    rest = epsilon[:, None], unbalanced, tol, max_iter
    value: Tensor = _Transport.apply(x, y, a, b, rest, False)
    if debias:
        own = [_Transport.apply(z, z, w, w, rest, True) for z, w in ((x, a), (y, b))]
        value = value - (own[0] + own[1]) / 2
        if unbalanced is not None:
            value = value + epsilon / 2 * (a.sum(1) - b.sum(1)).square()
    return (value if batched else value[0]).to(kind)


def _checked(x: Tensor, y: Tensor, weights: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Points as (batch, n, d) and weights as (batch, n) of one dtype, float32 at least, and device."""
    check_tensors(x=x, y=y)
    if x.ndim not in (2, 3) or x.ndim != y.ndim or x.shape[-1] != y.shape[-1] or x.shape[:-2] != y.shape[:-2]:
        found = f"{tuple(x.shape)} and {tuple(y.shape)}; both need the same batch and the same number of columns"
        raise InputError(f"expected points (n, d) and (m, d), or (batch, n, d) and (batch, m, d), got {found}.")
    if not isinstance(weights, tuple | list) or len(weights) != 2:
        raise InputError("weights must be a pair, those of x and those of y; None is uniform.")
    if is_half(x):
        x, y, weights = x.float(), y.float(), [each if each is None else each.float() for each in weights]
    sides = []
    for name, points, given in (("x", x, weights[0]), ("y", y, weights[1])):
        masses = points.new_full(points.shape[:-1], 1 / points.shape[-2]) if given is None else given
        check_tensors(**{name: points, f"weights of {name}": masses})
        if masses.shape != points.shape[:-1] or not (masses.is_meta or bool((masses > 0).all())):
            wanted = f"positive and of shape {tuple(points.shape[:-1])} for points {tuple(points.shape)}"
            advice = "give one for each point, and leave out points without mass"
            raise InputError(f"the weights of {name} must be {wanted}, got {tuple(masses.shape)}; {advice}.")
        sides += [points, masses] if x.ndim == 3 else [points[None], masses[None]]
    return sides[0], sides[2], sides[1], sides[3]


def check_tensors(**tensors: Any) -> None:
    """Raise an :class:`InputError` unless tensors are floating-point, finite, not empty, of one device and dtype."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise InputError(f"{name} must be a tensor, got {type(tensor).__name__}; convert with torch.as_tensor().")
    found = " and ".join(f"{name} {tuple(each.shape)} {each.dtype} on {each.device}" for name, each in tensors.items())
    if not all(tensor.dtype.is_floating_point for tensor in tensors.values()):
        raise InputError(f"expected floating-point tensors, got {found}; convert with .float().")
    if len({(tensor.device, tensor.dtype) for tensor in tensors.values()}) > 1:
        raise InputError(f"expected tensors of one device and dtype, got {found}; convert one with .to(...).")
    for name, tensor in tensors.items():
        if tensor.numel() == 0:
            raise InputError(f"{name} is empty, got {found}; leave out empty batches.")
        if not tensor.is_meta and not bool(torch.isfinite(tensor).all()):
            raise InputError(f"{name} contains NaN or infinity, got {found}; repair or remove these values.")


def is_half(tensor: Tensor) -> bool:
    """Whether a tensor has half precision, in which values are taken and returned but not computed."""
    return isinstance(tensor, Tensor) and tensor.dtype in (torch.float16, torch.bfloat16)
