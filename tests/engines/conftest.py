"""One cluster of two processes for all tests that need real workers: starting them is dear."""

from __future__ import annotations

import pytest


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
def client(cluster_client):
    """With both workers, whatever a test did to them before."""
    try:
        cluster_client.wait_for_workers(2, timeout=30)
    except TimeoutError:  # on a busy machine a nanny may give up the worker that it starts again
        cluster_client.cluster.scale(0)
        cluster_client.cluster.scale(2)
        cluster_client.wait_for_workers(2, timeout=180)
    return cluster_client
