"""One cluster of two processes for all tests that need real workers: starting them is dear."""

import os
import signal
import time

import pytest

import bispectral_ot as bot


@pytest.fixture(autouse=True)
def no_hang(request):
    """A test that waits for ever fails instead."""

    def fail(*_):
        raise TimeoutError(f"{request.node.name} took more than 300 s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(300)  # far above what any of these tests takes
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def turned():
    source, target = bot.split_halves(bot.load("digits"), per_class=40)
    return bot.rotate_randomly(source), target


@pytest.fixture(scope="session")
def cluster_client():
    distributed = pytest.importorskip("distributed")
    import dask

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 2}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def all_workers(cluster_client):
    """Function that waits until both workers are there, whatever was done to them before."""

    def wait():
        while True:  # no_hang ends it
            try:
                cluster_client.wait_for_workers(2, timeout=30)
            except TimeoutError:  # on a busy machine a nanny may give up the worker that it starts again
                cluster_client.cluster.scale(0)
                cluster_client.cluster.scale(2)
            # a worker that was just killed is still listed
            answers = cluster_client.run(os.getpid, on_error="return").values()
            if sum(isinstance(answer, int) for answer in answers) == 2:
                return
            time.sleep(0.5)

    return wait


@pytest.fixture
def client(cluster_client, all_workers):
    """With both workers."""
    all_workers()
    return cluster_client
