"""Other solvers of the same entropic problem, each as "prepare so many iterations, then run"."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Problem:
    """``min <P, cost> - reg * H(P)`` with uniform marginals, to be solved up to a marginal error.

    Attributes
    ----------
    cost : (n, m) float32, largest entry 1
    reg : regularisation
    tol : marginal error to reach, ``|P 1 - p|_1 + |P^T 1 - q|_1``
    """

    cost: NDArray[np.float32]
    reg: float
    tol: float

    def uniform(self, dtype: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """The marginals."""
        n, m = self.cost.shape
        return np.full(n, 1 / n, dtype), np.full(m, 1 / m, dtype)


# A plan (n, m), or potentials (f, g) in units of the cost with P = exp((f + g - cost) / reg).
Solution = Any
Prepare = Callable[[Problem, int], Callable[[], Solution]]


@dataclass(frozen=True)
class Peer:
    """Somebody else's solver.

    Attributes
    ----------
    name : as it is printed
    prepare : sets up a number of iterations (conversions and compilation included), returns what is timed
    needs : packages it cannot run without
    below : meant for regularisations below this one, where simpler settings do not serve
    """

    name: str
    prepare: Prepare
    needs: tuple[str, ...] = ()
    below: float = math.inf


def marginal_error(problem: Problem, solution: Solution) -> float:
    """``|P 1 - p|_1 + |P^T 1 - q|_1``, summed in float64 from the plan that a solver returned."""
    n, m = problem.cost.shape
    columns, error = np.zeros(m), 0.0
    for start in range(0, n, 512):
        rows = slice(start, start + 512)
        if isinstance(solution, tuple):
            f, g = (np.asarray(potential, dtype=np.float64) for potential in solution)
            plan = np.exp((f[rows, None] + g - problem.cost[rows].astype(np.float64)) / problem.reg)
        else:
            plan = np.asarray(solution[rows], dtype=np.float64)
        columns += plan.sum(axis=0)
        error += float(np.abs(plan.sum(axis=1) - 1 / n).sum())
    return error + float(np.abs(columns - 1 / m).sum())


def _pot(problem: Problem, iterations: int, *, method: str = "sinkhorn", dtype: Any = np.float64) -> Any:
    import ot

    (p, q), cost = problem.uniform(dtype), problem.cost.astype(dtype)
    options = {"method": method, "numItermax": iterations, "stopThr": 0.0, "warn": False}
    return lambda: ot.sinkhorn(p, q, cost, problem.reg, **options)


def _pot_torch(problem: Problem, iterations: int) -> Any:
    import ot

    torch = import_module("torch")
    p, q, cost = (torch.from_numpy(array) for array in (*problem.uniform(np.float32), problem.cost))
    return lambda: ot.sinkhorn(p, q, cost, problem.reg, numItermax=iterations, stopThr=0.0, warn=False)


def _greenkhorn(problem: Problem, iterations: int) -> Any:
    import ot

    (p, q), cost = problem.uniform(np.float64), problem.cost.astype(np.float64)
    updates = iterations * sum(cost.shape)  # an update is one row or column; as many as there are make an iteration
    return lambda: ot.bregman.greenkhorn(p, q, cost, problem.reg, numItermax=updates, stopThr=0.0, warn=False)


def _geomloss(problem: Problem, iterations: int) -> Any:
    solve, torch = import_module("geomloss.ot").solve, import_module("torch")
    p, q, cost = (torch.from_numpy(array) for array in (*problem.uniform(np.float32), problem.cost))
    log_p, log_q = np.log(1 / cost.shape[0]), np.log(1 / cost.shape[1])

    def work() -> Solution:
        result = solve(cost, reg=problem.reg, a=p, b=q, max_iter=iterations)
        # its plan is p q exp(...): the marginals go into the potentials
        return result.potential_a + problem.reg * log_p, result.potential_b + problem.reg * log_q

    return work


def _ott(problem: Problem, iterations: int, *, dtype: Any = np.float32, memory: int = 0) -> Any:
    jax = import_module("jax")
    geometry = import_module("ott.geometry.geometry")
    linear_problem = import_module("ott.problems.linear.linear_problem")
    linear = import_module("ott.solvers.linear.sinkhorn")
    acceleration = import_module("ott.solvers.linear.acceleration")
    solver = linear.Sinkhorn(
        threshold=0.0,
        min_iterations=iterations,
        max_iterations=iterations,
        inner_iterations=iterations,
        anderson=acceleration.AndersonAcceleration(memory=memory) if memory else None,
    )

    @jax.jit
    def solve(cost: Any) -> Solution:
        output = solver(linear_problem.LinearProblem(geometry.Geometry(cost, epsilon=problem.reg)))
        return output.f, output.g

    with jax.enable_x64(dtype is np.float64):
        cost = jax.numpy.asarray(problem.cost, dtype=dtype)
        compiled = solve.lower(cost).compile()
    return lambda: jax.block_until_ready(compiled(cost))


PEERS = (
    Peer("POT sinkhorn (default, float64)", _pot),
    Peer("POT sinkhorn, float32", partial(_pot, dtype=np.float32)),
    Peer("POT sinkhorn, torch float32", _pot_torch, ("torch",)),
    Peer("POT sinkhorn_log", partial(_pot, method="sinkhorn_log")),
    Peer("POT sinkhorn_stabilized", partial(_pot, method="sinkhorn_stabilized"), below=1e-2),
    Peer("POT greenkhorn", _greenkhorn),
    Peer("GeomLoss ot.solve", _geomloss, ("geomloss", "torch")),
    Peer("OTT-JAX Sinkhorn", _ott, ("ott", "jax")),
    Peer("OTT-JAX Sinkhorn, Anderson", partial(_ott, memory=8), ("ott", "jax")),
    Peer("OTT-JAX Sinkhorn, float64", partial(_ott, dtype=np.float64), ("ott", "jax"), below=1e-2),
)
