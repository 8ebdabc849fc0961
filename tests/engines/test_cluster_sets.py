"""Images that are read by the workers: chunks of a Dask array."""

import os

import numpy as np
import pytest

import bispectral_ot as bot
from bispectral_ot.transport import Sinkhorn

pytest.importorskip("distributed")
OPTIONS = {"solver": Sinkhorn(tol=1e-7), "features": "global-bispectrum"}


def test_chunks_of_a_dask_array_are_read_by_the_workers(client, turned, monkeypatch):
    import dask.array as da

    expected = bot.match(*turned, client=client, **OPTIONS)
    images = da.map_blocks(read, da.from_array(turned[0].images, chunks=(170, 4, 8)), dtype=np.float32)
    monkeypatch.setenv("NO_IMAGES_HERE", "1")  # the workers do not have it
    source = bot.Dataset(images, turned[0].labels, classes=turned[0].classes)
    found = bot.match(source, turned[1], client=client, **OPTIONS)
    assert found.distance == pytest.approx(expected.distance, rel=1e-6)
    np.testing.assert_array_equal(found.top_matches(3).indices, expected.top_matches(3).indices)


def read(chunk):
    if "NO_IMAGES_HERE" in os.environ:
        raise AssertionError("read by the client")
    return chunk


def test_chunks_that_cannot_be_used():
    import dask.array as da

    images = da.zeros((10, 8, 8), chunks=5)
    with pytest.raises(bot.InputError, match="compute_chunk_sizes"):
        bot.Dataset(images[images[:, 0, 0] >= 0])
    with pytest.raises(bot.InputError, match="real numbers"):
        bot.Dataset(images.astype(complex))
