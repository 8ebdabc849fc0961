"""Sinkhorn divergence of point clouds as a differentiable function.

The potentials are found without a graph. The value is then evaluated once at these potentials, where its derivatives
with respect to points and weights are those of the optimum (envelope theorem): nothing is differentiated through the
iterations, and memory is that of the points and one block of the cost matrix.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bispectral_ot.checks import check_choice
from bispectral_ot.errors import InputError, NotConvergedWarning, warn
from bispectral_ot.literals import Metric

_BLOCK = 2**22  # entries of the cost matrix that are computed at a time
_KEPT = 2**24  # entries up to which the cost matrix is kept between iterations
_ANNEALING = 0.25  # factor between two regularisations on the way to the last one
_CHECK_EVERY = 5  # iterations between two measurements of the marginal error


def _sqeuclidean(x: Tensor, y: Tensor) -> Tensor:
    product = x @ y.mT
    return (x.square().sum(-1)[..., :, None] + y.square().sum(-1)[..., None, :] - 2 * product).clamp_min(0)


def _l2(x: Tensor, y: Tensor) -> Tensor:
    # the subgradient of the norm at zero is zero
    squares = (x[..., :, None, :] - y[..., None, :, :]).square().sum(-1)
    return torch.where(squares > 0, squares, 1).sqrt() * (squares > 0)


def _l1(x: Tensor, y: Tensor) -> Tensor:
    return (x[..., :, None, :] - y[..., None, :, :]).abs().sum(-1)


def _cosine(x: Tensor, y: Tensor) -> Tensor:
    return 1 - torch.nn.functional.normalize(x, dim=-1) @ torch.nn.functional.normalize(y, dim=-1).mT


_COSTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sqeuclidean": _sqeuclidean,
    "l2": _l2,
    "l1": _l1,
    "cosine": _cosine,
}


class _Settings(NamedTuple):
    """Metric, penalty of the marginals (None: they are held), tolerance and maximum number of iterations."""

    metric: Metric
    penalty: float | None
    tol: float
    max_iter: int


class _Problem(NamedTuple):
    """Points (batch, n, d) and (batch, m, d), log-weights, cost, penalty of the marginals, and a small cost matrix."""

    x: Tensor
    y: Tensor
    log_a: Tensor
    log_b: Tensor
    cost: Callable[[Tensor, Tensor], Tensor]
    penalty: float | None
    matrix: Tensor | None = None

    def kept(self) -> _Problem:
        """The same problem with its cost matrix, where that is small."""
        if len(self.x) * self.x.shape[1] * self.y.shape[1] > _KEPT:
            return self
        return self._replace(matrix=torch.cat([self.cost(self.x[:, rows], self.y) for rows in self.blocks()], dim=1))

    def costs(self, rows: slice) -> Tensor:
        """Rows of the cost matrix."""
        return self.cost(self.x[:, rows], self.y) if self.matrix is None else self.matrix[:, rows]

    def blocks(self) -> Iterator[slice]:
        """Rows of x whose part of the cost matrix fits into a block; all of them for wide differences."""
        wide = self.x.shape[-1] if self.cost in (_l1, _l2) else 1
        step = max(1, _BLOCK // max(1, len(self.x) * self.y.shape[-2] * wide))
        return (slice(start, start + step) for start in range(0, self.x.shape[-2], step))

    def transposed(self) -> _Problem:
        matrix = None if self.matrix is None else self.matrix.mT
        return _Problem(self.y, self.x, self.log_b, self.log_a, self.cost, self.penalty, matrix)

    def softmin(self, g: Tensor, reg: Tensor) -> Tensor:
        """``-reg log sum_j b_j exp((g_j - C_ij) / reg)`` for each row, block by block."""
        h = self.log_b + g / reg
        return torch.cat(
            [
                -reg * torch.logsumexp(h[:, None, :] - self.costs(rows) / reg[..., None], dim=2)
                for rows in self.blocks()
            ],
            dim=1,
        )

    def damped(self, f: Tensor, reg: Tensor) -> Tensor:
        """Potential of a marginal with a Kullback-Leibler penalty; unchanged where the marginal is fixed."""
        return f if self.penalty is None else f * (self.penalty / (self.penalty + reg))


class _Dual(torch.autograd.Function):
    """Dual value at given potentials: constant in these, differentiable in points and weights, block by block."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        x, y, a, b, f, g, reg, settings = inputs
        problem = _problem(x, y, a, b, settings)
        mass = torch.cat([_plan_mass(problem, f, g, reg, rows) for rows in problem.blocks()], dim=1)
        ctx.save_for_backward(x, y, a, b, f, g, reg)
        ctx.settings, penalty = settings, settings.penalty
        total = mass.sum(1) - a.sum(1) * b.sum(1)
        return (a * _paid(f, penalty)).sum(1) + (b * _paid(g, penalty)).sum(1) - reg[:, 0] * total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, y, a, b, f, g, reg = ctx.saved_tensors
        problem = _problem(x, y, a, b, ctx.settings)
        out = grads[0][:, None]
        grad_x, grad_y, source, target = [], torch.zeros_like(y), [], torch.zeros_like(b)
        for rows in problem.blocks():
            with torch.enable_grad():
                ends = x[:, rows].detach().requires_grad_(), y.detach().requires_grad_()
                costs = problem.cost(*ends)
            plan = torch.exp((f[:, rows, None] + g[:, None, :] - costs.detach()) / reg[..., None])
            source.append((plan * b[:, None, :]).sum(2))
            target += (plan * a[:, rows, None]).sum(1)
            plan *= a[:, rows, None] * b[:, None, :]
            moved = torch.autograd.grad(costs, ends, plan * out[..., None])
            grad_x.append(moved[0])
            grad_y += moved[1]
        grad_a = out * (_paid(f, problem.penalty) - reg * (torch.cat(source, 1) - b.sum(1, keepdim=True)))
        grad_b = out * (_paid(g, problem.penalty) - reg * (target - a.sum(1, keepdim=True)))
        return torch.cat(grad_x, 1), grad_y, grad_a, grad_b, None, None, None, None


def _problem(x: Tensor, y: Tensor, a: Tensor, b: Tensor, settings: _Settings) -> _Problem:
    return _Problem(x, y, a.log(), b.log(), _COSTS[settings.metric], settings.penalty)


def _plan_mass(problem: _Problem, f: Tensor, g: Tensor, reg: Tensor, rows: slice) -> Tensor:
    exponents = (f[:, rows, None] + g[:, None, :] - problem.cost(problem.x[:, rows], problem.y)) / reg[..., None]
    return torch.exp(exponents + problem.log_a[:, rows, None] + problem.log_b[:, None, :]).sum(2)


def _paid(potential: Tensor, penalty: float | None) -> Tensor:
    """Dual of a marginal: the potential itself, or that of a Kullback-Leibler penalty."""
    return potential if penalty is None else penalty * (1 - torch.exp(-potential / penalty))


def _compiled_potentials(
    problem: _Problem, reg: Tensor, settings: _Settings, symmetric: bool
) -> tuple[Tensor, Tensor, float]:
    """Potentials by this package's compiled solver: one problem in float32 on the CPU."""
    from bispectral_ot.costs import Cost
    from bispectral_ot.transport import Sinkhorn

    a, b = (log[0].double().exp().numpy() for log in (problem.log_a, problem.log_b))
    cost = Cost(problem.x[0].numpy(), problem.y[0].numpy(), settings.metric)
    epsilon, scale = float(reg), cost.scale
    lam = None if problem.penalty is None else problem.penalty / scale
    solver = Sinkhorn(reg=epsilon / scale, tol=settings.tol, max_iter=settings.max_iter, unbalanced=lam)
    mass = a.sum() if lam is None else 1.0
    a, b = (a / a.sum(), b / b.sum()) if lam is None else (a, b)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)  # the caller warns
        plan = solver.self_term(cost, a) if symmetric else solver.solve(cost, a, b)
    potentials = plan.source_potential - epsilon * np.log(a * mass), plan.target_potential - epsilon * np.log(b)
    f, g = (torch.from_numpy(each).to(problem.x.dtype)[None] for each in potentials)
    return f, g, plan.marginal_error


@torch.no_grad()
def _solve(problem: _Problem, reg: Tensor, settings: _Settings, symmetric: bool) -> tuple[Tensor, Tensor, float]:
    """Potentials (batch, n) and (batch, m), and the largest marginal error; annealed from the size of the cost."""
    problem = problem.kept()
    back = problem.transposed()
    f, g = torch.zeros_like(problem.log_a), torch.zeros_like(problem.log_b)
    extent = torch.stack([problem.costs(rows).amax((1, 2)) for rows in problem.blocks()]).amax(0)
    current, error = torch.maximum(extent[:, None], reg), float("inf")
    for iteration in range(settings.max_iter):
        last = bool((current == reg).all())
        new = problem.damped(problem.softmin(g, current), current)
        change = (new - f).abs() / current
        f = (f + new) / 2 if symmetric else new
        g = f if symmetric else problem.damped(back.softmin(f, current), current)
        if last and iteration % _CHECK_EVERY == 0:
            # exp(change) - 1 is the relative error of each row's mass before the update
            error = float((problem.log_a.exp() * torch.expm1(change.clamp_max(50))).sum(1).max())
            if error <= settings.tol:
                break
        current = torch.maximum(current * _ANNEALING, reg)
    return f, g, error


def sinkhorn_divergence(
    x: Tensor,
    y: Tensor,
    *,
    weights: tuple[Tensor | None, Tensor | None] = (None, None),
    reg: float | None = None,
    unbalanced: float | None = None,
    debias: bool = True,
    metric: Metric = "sqeuclidean",
    tol: float = 1e-4,
    max_iter: int = 1000,
) -> Tensor:
    r"""Sinkhorn divergence between weighted points, with gradients for points and weights.

    .. math::
        S(a, b) = OT_\epsilon(a, b) - \tfrac12 OT_\epsilon(a, a) - \tfrac12 OT_\epsilon(b, b), \quad
        OT_\epsilon(a, b) = \min_P \langle P, C \rangle + \epsilon\, KL(P \,|\, a b^T),

    where P has the marginals a and b, or pays ``unbalanced`` times the Kullback-Leibler divergence for others.

    Parameters
    ----------
    x, y : Tensor of shape (n, d) and (m, d), or (batch, n, d) and (batch, m, d)
        Points; with a batch, as many problems are solved at once.
    weights : pair of Tensor of shape (n,) and (m,), or with a batch, or None
        Positive masses of x and y; None for uniform ones with sum 1.
    reg : float, optional
        Regularisation in the units of the cost; by default 0.05 times the mean cost between x and y, taken as a
        constant.
    unbalanced : float, optional
        Penalty of the marginals; None holds them.
    debias : bool
        Whether the two self-terms are subtracted; without them the value of a set with itself is not zero.
    metric : {"sqeuclidean", "l2", "l1", "cosine"}
        Cost between two points.
    tol, max_iter
        Marginal error (total variation) at which iterations stop, and their maximum number.

    Returns
    -------
    Tensor
        A scalar, or one value for each problem of the batch.

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
    batched = x.ndim == 3
    x, y, a, b = _check(x, y, *weights)
    check_choice("metric", metric, _COSTS)
    settings = _Settings(metric, unbalanced, tol, max_iter)
    if unbalanced is None and not torch.allclose(a.sum(1), b.sum(1), rtol=1e-4):
        raise InputError(
            f"weights must have the same sum on both sides, got {a.sum(1).tolist()} and {b.sum(1).tolist()}; "
            "divide each by its sum, or give unbalanced=."
        )
    with torch.no_grad():
        epsilon = 0.05 * _mean_cost(x, y, _COSTS[metric]) if reg is None else x.new_full((len(x),), float(reg))
    if not bool((epsilon > 0).all()):
        if reg is not None:
            raise InputError(f"reg must be positive, got {reg!r}.")
        epsilon = epsilon.clamp_min(torch.finfo(x.dtype).tiny ** 0.5)
    value = _term(x, y, a, b, epsilon[:, None], settings)
    if debias:
        own = [_term(each, each, mass, mass, epsilon[:, None], settings, True) for each, mass in ((x, a), (y, b))]
        value = value - (own[0] + own[1]) / 2
        if unbalanced is not None:
            value = value + epsilon / 2 * (a.sum(1) - b.sum(1)).square()
    return value if batched else value[0]


def _term(
    x: Tensor, y: Tensor, a: Tensor, b: Tensor, reg: Tensor, settings: _Settings, symmetric: bool = False
) -> Tensor:
    problem = _problem(x.detach(), y.detach(), a.detach(), b.detach(), settings)
    compiled = x.device.type == "cpu" and x.dtype == torch.float32 and len(x) == 1
    f, g, error = (_compiled_potentials if compiled else _solve)(problem, reg, settings, symmetric)
    tol, max_iter = settings.tol, settings.max_iter
    if error > tol:
        warn(
            f"the Sinkhorn divergence has a marginal error of {error:.1e} after {max_iter} iterations, above "
            f"{tol:.0e}; raise max_iter or reg.",
            NotConvergedWarning,
        )
    value: Tensor = _Dual.apply(x, y, a, b, f, g, reg, settings)
    return value


def _mean_cost(x: Tensor, y: Tensor, cost: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    some = slice(None, None, max(1, x.shape[1] // 512)), slice(None, None, max(1, y.shape[1] // 512))
    return cost(x[:, some[0]], y[:, some[1]]).mean((1, 2))


def _check(x: Tensor, y: Tensor, a: Tensor | None, b: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Points as (batch, n, d) and weights as (batch, n) of one dtype and device."""
    if x.ndim not in (2, 3) or x.ndim != y.ndim or x.shape[-1] != y.shape[-1] or x.shape[:-2] != y.shape[:-2]:
        raise InputError(
            f"expected points (n, d) and (m, d), or (batch, n, d) and (batch, m, d), got {tuple(x.shape)} and "
            f"{tuple(y.shape)}; both need the same batch and the same number of columns."
        )
    if 0 in x.shape or 0 in y.shape:
        raise InputError(f"expected at least one point on each side, got {tuple(x.shape)} and {tuple(y.shape)}.")
    for name, tensor in (("x", x), ("y", y), ("the weights of x", a), ("the weights of y", b)):
        if tensor is None:
            continue
        if not tensor.dtype.is_floating_point:
            raise InputError(f"{name} must be floating-point, got {tensor.dtype}; convert with .float().")
        if tensor.device != x.device or tensor.dtype != x.dtype:
            raise InputError(
                f"all tensors must share device and dtype, got {x.device} {x.dtype} for x and {tensor.device} "
                f"{tensor.dtype} for {name}; convert one with .to(...)."
            )
        if not tensor.is_meta and not bool(torch.isfinite(tensor).all()):
            raise InputError(f"{name} has NaN or infinity in it; repair these values or leave them out.")
    sides = []
    for name, points, masses in (("the weights of x", x, a), ("the weights of y", y, b)):
        expected = points.shape[:-1]
        if masses is None:
            masses = points.new_full(expected, 1 / points.shape[-2])
        elif masses.shape != expected:
            raise InputError(f"{name} must have the shape {tuple(expected)}, got {tuple(masses.shape)}.")
        elif not bool((masses > 0).all()):
            raise InputError(f"{name} must be positive; leave out points without mass.")
        sides.append(masses)
    if x.ndim == 2:
        return x[None], y[None], sides[0][None], sides[1][None]
    return x, y, sides[0], sides[1]
