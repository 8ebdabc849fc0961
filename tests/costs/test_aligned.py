"""The distance between orbits, against coefficients that are turned and mirrored one by one."""

import numpy as np
import pytest
from numpy.typing import NDArray

from bispectral_ot.costs import ALIGNED_METRICS, METRICS, STORAGES, AlignedDistance, Cost
from bispectral_ot.errors import InputError

COUNTS = (3, 4, 2, 5, 1)  # coefficients of each frequency
FREQUENCIES = np.repeat(np.arange(len(COUNTS)), COUNTS)


def index_map() -> NDArray:
    rows = [(k, part) for k, count in enumerate(COUNTS) for part in (0, 1) for _ in range(count)]
    return np.array(rows, dtype=[("frequency", np.int32), ("part", np.int32)])


def as_rows(coefficients: NDArray) -> NDArray[np.float32]:
    """Complex coefficients (n, 15) to columns ordered by frequency and part."""
    blocks = [coefficients[:, k == FREQUENCIES] for k in range(len(COUNTS))]
    return np.hstack([part for block in blocks for part in (block.real, block.imag)]).astype(np.float32)


def random_coefficients(n: int, seed: int) -> NDArray:
    random = np.random.default_rng(seed)
    return random.normal(size=(n, sum(COUNTS))) + 1j * random.normal(size=(n, sum(COUNTS)))


def turn(coefficients: NDArray, angle: float, *, mirror: bool = False) -> NDArray:
    return (coefficients.conj() if mirror else coefficients) * np.exp(-1j * FREQUENCIES * angle)


def literal(source: NDArray, target: NDArray, metric: str, *, reflections: bool) -> NDArray:
    """Every pair, every one of 4 rotations for each frequency, every mirror image, one after the other."""
    distances = np.full((len(source), len(target)), np.inf)
    for i, x in enumerate(source):
        for j, y in enumerate(target):
            for mirror in (False, True) if reflections else (False,):
                for rotation in range(4 * len(COUNTS)):
                    turned = turn(y, 2 * np.pi * rotation / (4 * len(COUNTS)), mirror=mirror)
                    squared = (np.abs(x - turned) ** 2).sum()
                    found = {
                        "sqeuclidean": squared,
                        "l2": np.sqrt(squared),
                        "cosine": 1 - np.vdot(x, turned).real / np.linalg.norm(x) / np.linalg.norm(y),
                    }[metric]
                    distances[i, j] = min(distances[i, j], found)
    return distances


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.setenv("BISPECTRAL_OT_THREADS", "2")


@pytest.mark.parametrize("metric", ALIGNED_METRICS)
@pytest.mark.parametrize("reflections", [False, True])
def test_every_pair_is_at_its_best_turn(metric, reflections):
    source, target = random_coefficients(9, 0), random_coefficients(7, 1)
    expected = literal(source, target, metric, reflections=reflections)
    distance = AlignedDistance(as_rows(source), as_rows(target), index_map(), metric, reflections=reflections)
    for storage in STORAGES:
        cost = Cost.from_distance(distance, storage=storage)
        np.testing.assert_allclose(cost.block(0, 9), expected, rtol=1e-5, atol=1e-5 + cost.storage_error)
        np.testing.assert_allclose(cost.block(2, 5), expected[2:5], rtol=1e-5, atol=1e-5 + cost.storage_error)
        assert cost.maximum == pytest.approx(expected.max(), rel=1e-4)


@pytest.mark.parametrize("metric", ALIGNED_METRICS)
@pytest.mark.parametrize("reflections", [False, True])
def test_members_of_an_orbit_have_no_distance(metric, reflections):
    source, angles = random_coefficients(20, 2), 2 * np.pi * np.random.default_rng(0).integers(20, size=20) / 20
    target = np.array([turn(x, angle, mirror=reflections)[0] for x, angle in zip(source[:, None], angles, strict=True)])
    distance = AlignedDistance(as_rows(source), as_rows(target), index_map(), metric, reflections=reflections)
    distances = distance.rows(0, 20)
    # what is left is the float32 rounding of the turned coefficients
    assert np.diag(distances).max() < (1e-5 if metric == "l2" else 1e-10)
    assert distances[~np.eye(20, dtype=bool)].min() > 0.1
    rows = 1000 * as_rows(source)
    assert not np.diag(AlignedDistance(rows, rows, index_map(), metric).rows(0, 20)).any()
    if reflections:
        without = AlignedDistance(as_rows(source), as_rows(target), index_map(), metric).rows(0, 20)
        assert np.diag(without).min() > 0.1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("metric", ALIGNED_METRICS)
def test_columns_with_one_value_are_turned_like_all_others(metric):
    """Distances that see no rotation may shift float64 features before they round them; these may not."""
    source, target = random_coefficients(6, 10), random_coefficients(5, 11)
    source[:, 4] = target[:, 4] = 2.0 + 3.0j
    rows = [as_rows(x).astype(np.float64) for x in (source, target)]
    expected = literal(source, target, metric, reflections=False)
    np.testing.assert_allclose(AlignedDistance(*rows, index_map(), metric).rows(0, 6), expected, rtol=1e-5)


def test_more_rows_than_a_tile_and_mapped_features(tmp_path):
    source, target = as_rows(random_coefficients(150, 5)), as_rows(random_coefficients(300, 6))
    whole = AlignedDistance(source, target, index_map()).rows(0, 150)
    mapped = []
    for name, rows in (("source", source), ("target", target)):
        np.save(tmp_path / f"{name}.npy", rows)
        mapped.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    np.testing.assert_allclose(AlignedDistance(*mapped, index_map()).rows(0, 150), whole, rtol=1e-5)
    some = [3, 77, 149], [0, 255, 256, 299]
    part = AlignedDistance(source[some[0]], target[some[1]], index_map()).rows(0, 3)
    np.testing.assert_allclose(part, whole[np.ix_(*some)], rtol=1e-5)


def test_what_is_refused():
    rows = as_rows(random_coefficients(3, 7))
    assert set(METRICS) - set(ALIGNED_METRICS) == {"l1"}
    with pytest.raises(InputError, match="metric at the best rotation 'l1'"):
        AlignedDistance(rows, rows, index_map(), "l1")
    with pytest.raises(InputError, match="each of the 30 columns"):
        AlignedDistance(rows, rows, index_map()[1:])
    with pytest.raises(InputError, match="each of the 30 columns"):
        AlignedDistance(rows, rows, np.zeros(30, dtype=[("frequency", np.int32)]))
    for wrong in (index_map()[::-1], np.sort(index_map(), order="part")):
        with pytest.raises(InputError, match="ordered by frequency"):
            AlignedDistance(rows, rows, wrong)
