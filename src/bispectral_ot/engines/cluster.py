"""Connections to a Dask cluster, and whether its workers can do the work."""

from __future__ import annotations

import asyncio
import platform
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

# What has to be the same here and on the workers: results would differ otherwise, or tasks could not be read.
_COMPARED = ("numpy", "scipy", "numba", "scikit-learn", "cloudpickle", "dask", "distributed", "bispectral-ot")
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
            cluster = LocalCluster(n_workers=int(local[1]), threads_per_worker=1, dashboard_address=":0")
            address: Any = stack.enter_context(cluster)
        elif re.fullmatch(r"(tcp|tls|ws|wss|ucx)://.+:[0-9]+", scheduler):
            address = scheduler
        else:
            raise InputError(
                f"a scheduler is given as tcp://HOST:PORT, or as local:4 for 4 processes, got {scheduler!r}."
            )
        try:
            with dask.config.set({"distributed.comm.timeouts.connect": f"{seconds}s"}):
                client = stack.enter_context(Client(address, timeout=seconds))
        except OSError as error:  # time-outs included
            raise ClusterError(f"there is no scheduler at {scheduler} ({error}). {_HOW_TO_START}") from None
        yield Dask(client, wait=seconds)


def check_cluster(client: Client, *, seconds: float = 30.0) -> None:
    """Wait for a worker, and compare versions.

    Raises
    ------
    ClusterError
        If no worker comes within some seconds, or a version differs.
    """
    try:
        client.wait_for_workers(1, timeout=seconds)
    except TimeoutError:
        raise ClusterError(
            f"the scheduler at {client.scheduler.address} has no workers, and none came within {seconds:g} s. "
            f"{_HOW_TO_START}"
        ) from None
    found = client.run(versions, on_error="return")
    found["scheduler"] = client.run_on_scheduler(versions)
    here, different = versions(), []
    for place, theirs in found.items():
        if isinstance(theirs, BaseException):
            different.append(f"{place} cannot load bispectral_ot ({theirs})")
            continue
        different += [
            f"{name} is {here[name]} here and {version} on {place}"
            for name, version in theirs.items()
            if version != here[name]
        ]
    if different:
        raise ClusterError(
            f"the cluster cannot work with this process: {'; '.join(different)}. Install the same versions."
        )


def can_reach_workers(client: Client, *, seconds: float = 3.0) -> bool:
    """Whether workers can be asked for results without the scheduler in between, which then need not carry them.

    They cannot where this machine is outside of the cluster's network.
    """
    from distributed.comm import connect

    async def reach(address: str) -> None:
        options = client.security.get_connection_args("client")
        await (await connect(address, timeout=seconds, **options)).close()

    async def reach_all() -> None:
        await asyncio.gather(*map(reach, client.scheduler_info(n_workers=-1)["workers"]))

    try:
        client.sync(reach_all)
    except OSError:
        return False
    return True


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


def versions() -> dict[str, str]:
    """Versions of Python and of what the work depends on."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in _COMPARED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found


def _import() -> None:
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise InputError("a cluster needs Dask: pip install 'bispectral-ot[dask]'.") from None
