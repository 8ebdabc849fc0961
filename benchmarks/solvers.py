"""Solvers: the same problem to the same measured marginal error."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers import PEERS, Peer, Problem, Solution, marginal_error
from benchmarks.search import Outcome, Trial, cheapest
from benchmarks.setting import Setting, turned_halves
from benchmarks.tables import Table
from benchmarks.timing import median_seconds, missing, timed
from bispectral_ot.costs import Cost, Storage
from bispectral_ot.features import RingBispectrum
from bispectral_ot.transport import Sinkhorn
from studies.baselines import RingPowerSpectrum

# (reg, marginal error to reach): the paper's regularisation, and two at which kernels underflow
PROBLEMS = ((1e-2, 3e-4), (1e-2, 1e-6), (1e-3, 3e-4), (1e-4, 3e-4))
_OURS = "bispectral-ot"
_COLUMNS = ["method", "result", "iterations", "seconds", "error", "ratio"]


def measure(setting: Setting) -> Iterator[Table]:
    """All problems with a stored cost, then one with a cost that nobody stores."""
    source, target = turned_halves(setting.digits, setting.sizes.solver)
    transformer = RingBispectrum().fit(source.images)
    x, y = transformer.transform(source.images), transformer.transform(target.images)
    stored: dict[Storage, Cost] = {
        storage: Cost(x, y, "l1", weights=transformer.feature_weights_, storage=storage)
        for storage in ("float32", "compact")
    }
    matrix = _scaled(stored["float32"])
    for reg, tol in PROBLEMS:
        yield _race(Problem(matrix, reg, tol), stored, setting)
    del stored, matrix, x, y
    yield _race_without_storing(setting)


def _race(problem: Problem, stored: dict[Storage, Cost], setting: Setting) -> Table:
    runs = {
        _OURS: _ours(stored["float32"], problem),
        f"{_OURS}, 16-bit cost": _ours(stored["compact"], problem),
    }
    compact = stored["compact"]
    n, m = problem.cost.shape
    note = (
        f"{n:,} x {m:,} digits, L1 between ring bispectra, reg {problem.reg:g} of the largest cost, marginal error "
        f"{problem.tol:g} (both L1 violations together, measured in float64 from the returned plan). Peers run the "
        "fewest iterations that reach it (where none do: the best run); compilation is not counted, our final "
        f"measurement is. An iteration of greenkhorn is {n + m:,} updates. The 16-bit cost is rounded by at most "
        f"{compact.storage_error / compact.scale:.0e} of the maximum."
    )
    peers = tuple(peer for peer in PEERS if problem.reg < peer.below)
    return _race_table(f"Solvers, reg {problem.reg:g}, error {problem.tol:g}", note, problem, runs, peers, setting)


def _race_without_storing(setting: Setting) -> Table:
    source, target = turned_halves(setting.digits, setting.sizes.lazy)
    transformer = RingPowerSpectrum().fit(source.images)
    root = np.sqrt(transformer.feature_weights_)
    x, y = transformer.transform(source.images) * root, transformer.transform(target.images) * root
    cost = Cost(x, y, "sqeuclidean", storage="recompute")
    problem = Problem(_scaled(cost), *PROBLEMS[0])

    def lazy(problem: Problem, iterations: int) -> Callable[[], Solution]:
        import ot

        x64, y64 = (features.astype(np.float64) for features in (x, y))
        reg = problem.reg * cost.scale

        def work() -> Solution:
            solved = ot.solve_sample(x64, y64, reg=reg, lazy=True, max_iter=iterations, tol=0.0)
            return tuple(potential * problem.reg for potential in solved.potentials)

        return work

    note = (
        f"{len(source):,} x {len(target):,} digits, squared L2 between ring power spectra ({x.shape[1]} columns), the "
        "cost that POT's lazy solver is made for, computed again in every iteration; "
        f"reg {problem.reg:g}, marginal error {problem.tol:g}."
    )
    runs = {f"{_OURS}, recomputed cost": _ours(cost, problem)}
    peers = (Peer("POT solve_sample(lazy=True)", lazy),)
    return _race_table("Solvers that never store the cost", note, problem, runs, peers, setting)


def _scaled(cost: Cost) -> NDArray[np.float32]:
    """The matrix with largest entry 1 that peers get."""
    return (cost.block(0, cost.shape[0]) / cost.scale).astype(np.float32)


def _ours(cost: Cost, problem: Problem) -> Callable[[], Any]:
    solver = Sinkhorn(reg=problem.reg, tol=problem.tol, max_iter=2_000)
    return lambda: solver.solve(cost)


def _race_table(
    title: str,
    note: str,
    problem: Problem,
    our_runs: dict[str, Callable[[], Any]],
    peers: tuple[Peer, ...],
    setting: Setting,
) -> Table:
    """Search each peer's cheapest run, then time all that reached the error side by side."""
    outcomes: dict[str, Outcome] = {}
    works: dict[str, Callable[[], Any]] = {}
    skipped = []
    with _quiet():
        for name, work in our_runs.items():
            work()  # compiled code is loaded
            seconds, coupling = timed(work)
            reached = "reached" if coupling.converged else f"stops at {coupling.marginal_error:.0e}"
            outcomes[name] = Outcome(reached, Trial(coupling.iterations, seconds, coupling.marginal_error))
            works[name] = work
        for peer in peers:
            absent = missing(peer.needs)
            if absent:
                skipped.append(f"{peer.name} ({', '.join(absent)} not installed)")
                continue
            outcomes[peer.name], works[peer.name] = _search(peer, problem, setting.time_box)
        again = {
            name: work
            for name, work in works.items()
            if outcomes[name].result == "reached" and outcomes[name].trial.seconds < setting.time_box / 16
        }
        seconds_of = median_seconds(again, repeats=setting.sizes.repeats)
    seconds_of = {name: outcome.trial.seconds for name, outcome in outcomes.items()} | seconds_of
    our_seconds = seconds_of[next(iter(our_runs))]
    rows = [
        {
            "method": name,
            "result": outcome.result,
            "iterations": outcome.trial.iterations,
            "seconds": seconds_of[name],
            "error": outcome.trial.error,
            "ratio": seconds_of[name] / our_seconds if outcome.result == "reached" else None,
        }
        for name, outcome in outcomes.items()
    ]
    return Table(title, note, _COLUMNS, rows, skipped)


def _search(peer: Peer, problem: Problem, time_box: float) -> tuple[Outcome, Callable[[], Any]]:
    """The peer's cheapest run that reaches the error, or why there is none."""
    prepared: dict[int, Callable[[], Solution]] = {}

    def run(iterations: int) -> Trial:
        work = peer.prepare(problem, iterations)
        seconds, solution = timed(work)
        prepared[iterations] = work
        return Trial(iterations, seconds, marginal_error(problem, solution))

    try:
        outcome = cheapest(run, tol=problem.tol, time_box=time_box)
    except Exception as error:  # somebody else's failure is a result, not the end of the benchmark
        return Outcome(f"fails: {type(error).__name__}", Trial(0, float("nan"), float("nan"))), lambda: None
    return outcome, prepared[outcome.trial.iterations]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings of solvers that are sent where they cannot succeed."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
