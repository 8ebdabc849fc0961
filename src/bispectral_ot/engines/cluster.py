"""Connections to a Dask cluster."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from bispectral_ot.engines.engine import Engine
from bispectral_ot.errors import ClusterError, InputError
from bispectral_ot.memory import available_memory

if TYPE_CHECKING:
    from distributed import Client

    from bispectral_ot.engines.dask import Dask

# Packages of the same version everywhere, because tasks travel, and on workers, because results would differ.
_WIRE = ("python", "cloudpickle", "dask", "distributed")
_COMPARED = ("numpy", "scipy", "numba", "scikit-learn", "bispectral-ot")
_HOW_TO_START = (
    "Start one with `dask scheduler` and, on every machine, `dask worker tcp://HOST:8786`, or use local:2 for "
    "processes on this machine."
)


def as_engine(client: Client | Engine | None) -> Engine | None:
    """The engine for a ``distributed.Client``; engines and None as they are."""
    if client is None or isinstance(client, Engine):
        return client
    _import()
    from distributed import Client

    from bispectral_ot.engines.dask import Dask

    if not isinstance(client, Client):
        raise InputError(f"client must be a distributed.Client, such as Client('tcp://host:8786'), got {client!r}.")
    return Dask(client)


@contextmanager
def connected(scheduler: str | None, *, seconds: float = 30.0) -> Iterator[Dask | None]:
    """An engine for a scheduler's address, or for ``local:4``, four processes on this machine; None for None.

    Parameters
    ----------
    seconds
        To wait for the scheduler, and for its first worker.

    Raises
    ------
    ClusterError
        If there is no scheduler or no worker, or the versions of its libraries differ.
    """
    if scheduler is None:
        yield None
        return
    _import()
    import dask
    from distributed import Client, LocalCluster

    from bispectral_ot.engines.dask import Dask

    with ExitStack() as stack:
        local = re.fullmatch(r"local:([1-9][0-9]*)", scheduler)
        if local:
            stack.enter_context(_quiet_nannies())
            cluster = LocalCluster(n_workers=int(local[1]), threads_per_worker=1, dashboard_address="127.0.0.1:0")
            address: Any = stack.enter_context(cluster)
        elif re.fullmatch(r"(tcp|tls|ws|wss|ucx)://.+:[0-9]+", scheduler):
            address = scheduler
        else:
            raise InputError(
                f"a scheduler is given as tcp://HOST:PORT, or as local:4 for 4 processes, got {scheduler!r}."
            )
        try:
            with dask.config.set({"distributed.comm.timeouts.connect": f"{seconds}s"}):
                client = stack.enter_context(Client(address, timeout=seconds, direct_to_workers=bool(local)))
        except OSError as error:  # time-outs included
            raise ClusterError(f"there is no scheduler at {scheduler} ({error}). {_HOW_TO_START}") from None
        yield Dask(client, wait=seconds)


@contextmanager
def _quiet_nannies() -> Iterator[None]:
    """Within this context nannies do not log that they kill workers which take long to end."""
    logger = logging.getLogger("distributed.nanny")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def wait_for_worker(client: Client, *, seconds: float) -> None:
    """Wait for a worker, or raise a :class:`ClusterError`."""
    try:
        client.wait_for_workers(1, timeout=seconds)
    except TimeoutError:
        raise ClusterError(
            f"the scheduler at {client.scheduler.address} has no workers, and none came within {seconds:g} s. "
            f"{_HOW_TO_START}"
        ) from None


def check_cluster(client: Client, *, seconds: float = 30.0) -> None:
    """Wait for a worker, and compare versions.

    Raises
    ------
    ClusterError
        If no worker comes within some seconds, or a version differs.
    """
    wait_for_worker(client, seconds=seconds)
    found = client.get_versions(packages=list(_COMPARED))
    here, different = found["client"]["packages"], []
    for place, theirs in {"the scheduler": found["scheduler"], **found["workers"]}.items():
        there = theirs["packages"] if theirs else {}
        different += [
            f"{name} is {here[name]} here and {there.get(name)} on {place}"
            for name in (_WIRE if place == "the scheduler" else (*_WIRE, *_COMPARED))
            if here[name] != there.get(name)
        ]
    if different:
        raise ClusterError(
            f"the cluster cannot work with this process: {'; '.join(different)}. Install the same versions."
        )


def describe_workers(client: Client) -> dict[str, Any]:
    """Threads, host and memory (its limit, or else a part of what its machine has) of each worker, by address."""
    found = {
        address: {"threads": worker["nthreads"], "host": worker["host"], "memory_limit": worker["memory_limit"]}
        for address, worker in client.scheduler_info(n_workers=-1)["workers"].items()
    }
    free = client.run(available_memory) if any(not worker["memory_limit"] for worker in found.values()) else {}
    hosts = Counter(worker["host"] for worker in found.values())
    for address, worker in found.items():
        worker["memory_limit"] = worker["memory_limit"] or free[address] // hosts[worker["host"]]
    return found


def _import() -> None:
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise InputError("a cluster needs Dask: pip install 'bispectral-ot[dask]'.") from None
