"""Every stage of a match against the limit of the machine that binds it: products, arithmetic, exponentials, JPEG."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from PIL import Image

from benchmarks.end_to_end import growth_exponent
from benchmarks.machine import _blas_rate, _on_all_cores
from benchmarks.setting import Setting, turned_halves
from benchmarks.tables import Table
from benchmarks.timing import timed
from bispectral_ot.costs import Cost
from bispectral_ot.datasets import load
from bispectral_ot.engines import core_count
from bispectral_ot.errors import DataWarning
from bispectral_ot.features import CombinedBispectrum, GlobalBispectrum, LocalBispectrum
from bispectral_ot.features.local_bispectrum import CHANNEL_LADDER, EDGE_LADDER
from bispectral_ot.matching import Match, class_preservation, match
from bispectral_ot.matching.class_model import CENTRES, CHOOSING, REFERENCES, SHRINKAGES
from bispectral_ot.report.run_folder import write_match

# Passes over all pairs that class scores take: one for each width of the kernels.
_CLASS_PASSES = 3
_CLASSES, _PIXELS = 8, 416  # of the photographs that are made for this


class Rates(NamedTuple):
    """Rates of this machine, all cores together: 1e9 a second."""

    product: float
    arithmetic: float
    exponential: float
    exponential64: float
    class_sum: float


@njit(nogil=True, cache=True, fastmath={"contract"})
def _multiply_add(a, b, out):  # type: ignore[no-untyped-def]
    for p in range(len(out)):
        out[p] = a[p] * b[p] + out[p]


@njit(nogil=True, cache=True)
def _add_by_class(values, classes, lanes):  # type: ignore[no-untyped-def]
    for j in range(len(values)):
        lanes[j & 7, classes[j]] += values[j]


def _class_sum_rate(repeats: int) -> float:
    """G numbers a second that are added to the sum of their class, one after the other, in eight sums in turns."""
    values, classes, rounds = np.ones(2**14), np.arange(2**14) * 7 % 10, 500
    lanes = np.zeros((core_count(), 8, 64))

    def work(core: int) -> None:
        for _ in range(rounds):
            _add_by_class(values, classes, lanes[core])

    return core_count() * rounds * len(values) / _on_all_cores(work, repeats=repeats) / 1e9


def _arithmetic_rate(repeats: int) -> float:
    """G multiply-adds a second of arrays in the first cache, as in loops over pixels."""
    rows = np.ones((core_count(), 3, 2048), dtype=np.float32)
    rounds = 20_000

    def work(core: int) -> None:
        for _ in range(rounds // 100):
            _repeated(rows[core, 0], rows[core, 1], rows[core, 2], 100)

    return core_count() * rounds * rows.shape[2] / _on_all_cores(work, repeats=repeats) / 1e9


@njit(nogil=True, cache=True)
def _repeated(a, b, out, rounds):  # type: ignore[no-untyped-def]
    for _ in range(rounds):
        _multiply_add(a, b, out)


class Work(NamedTuple):
    """What the features of one image take: multiply-adds in matrix products, and operations in loops over arrays."""

    products: int
    operations: int


def _extraction(transformer: CombinedBispectrum) -> Work:
    """Work of an image, counted from the tables of its transformer; a multiply-add, a root or a load is one each."""
    local, coupled = transformer.parts_
    assert isinstance(local, LocalBispectrum)
    assert isinstance(coupled, GlobalBispectrum)
    products = sum(each.size for each in transformer.projections_)
    channels = local._channels
    operations = 0
    for level, disk in enumerate(local.disks_):
        pixels, inside = local.size_[0] * local.size_[1] >> 2 * level, int((disk[1] - disk[0]).sum())
        for ladder, planes, first in ((CHANNEL_LADDER, channels, 0), (EDGE_LADDER, 1, 1)):
            if not first <= level < (local._n_channel_levels if first == 0 else len(local.disks_)):
                continue
            derivatives = int((ladder.steps[:, 3] != 0).sum())
            # five taps along both axes; derivatives of two planes; two roots and quotients; products of two and three
            smoothing = 10 * pixels * (1 if first == 0 else 5)
            pooled = 14 * len(ladder.fields) + 8 * len(ladder.pairs) + 12 * len(ladder.triples)
            operations += planes * (smoothing + 16 * derivatives * pixels + pooled * inside)
    grid = len(coupled.inside_)
    side = int(np.sqrt(grid))
    products += 2 * grid * side * (3 * channels + 5)  # filters of intensities, gradients and edges, along both axes
    samples = coupled._n_fields * coupled.n_rings * coupled.n_angles
    operations += 8 * samples + int(2.5 * samples * np.log2(coupled.n_angles))  # interpolation, Fourier transform
    operations += 8 * len(coupled.product_weights_)  # two gathers, a complex product, the norm
    return Work(products, operations)


def measure(setting: Setting) -> Iterator[Table]:
    """Limits of the machine, then stages of matches of digits and of photographs, and how they grow."""
    sizes = setting.sizes
    new_memory = 2**30 / _provided(2**30) / 1e9
    rates = Rates(
        _blas_rate(size=2_000, repeats=sizes.repeats),
        _arithmetic_rate(sizes.repeats),
        _exponential_rate(sizes.repeats, np.float32),
        _exponential_rate(sizes.repeats, np.float64),
        _class_sum_rate(sizes.repeats),
    )
    rows: list[dict[str, Any]] = [
        {"what": "float32 matrix product", "rate": rates.product, "unit": "G multiply-adds/s"},
        {"what": "float32 multiply-adds of arrays in the first cache", "rate": rates.arithmetic, "unit": "G/s"},
        {"what": "float32 exponential (NumPy)", "rate": rates.exponential, "unit": "G/s"},
        {"what": "float64 exponential (NumPy)", "rate": rates.exponential64, "unit": "G/s"},
        {"what": "float64 sums by class (one number at a time)", "rate": rates.class_sum, "unit": "G/s"},
        {"what": "new memory from the operating system", "rate": new_memory, "unit": "GB/s"},
    ]
    yield Table("Limits of this machine", f"{core_count()} cores, best of some runs.", ["what", "rate", "unit"], rows)
    match(*turned_halves(setting.digits, 40))  # compiled code is loaded
    runs: dict[int, dict[str, float]] = {}
    for n in sizes.limits:
        source, target = turned_halves(setting.digits, n)
        if len(source) in runs:
            break  # there are no more digits
        first = sum(_run(source, target)[1].values())
        found, seconds = _run(source, target)  # the first run waits for memory from the operating system
        runs[len(source)] = seconds
        times = f"{first:.1f} s, in a second run {sum(seconds.values()):.1f} s"
        accuracy = class_preservation(found).accuracy
        title = f"{len(source):,} turned digits against {len(target):,}: {times}, {accuracy:.4f}"
        yield _shares(title, seconds, _bounds(found, rates), found, _cost_in_used_memory(found))
    yield _growth(runs)
    for n in sizes.photographs:
        yield _photographs(n, rates)


def _run(source: Any, target: Any, read: float | None = None) -> tuple[Match, dict[str, float]]:
    """Match, and seconds of its stages and of what is written."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        found = match(source, target)
        content = write_match(Path(folder), found)
    return found, {**({} if read is None else {"read": read}), **content["seconds"]}


def _bounds(found: Match, rates: Rates) -> dict[str, tuple[str, float]]:
    """Least seconds of stages: what binds them, and how long that takes at the rate of the machine."""
    (n, m), columns = found.coupling.cost.shape, _columns(found)
    pairs = n * m
    passes = found.coupling.iterations
    transformer = found.feature_map.transformer
    work = _extraction(transformer) if isinstance(transformer, CombinedBispectrum) else Work(0, 0)
    exponential = 1e9 * rates.exponential
    product = 1e9 * rates.product
    centres, left_out = min(m, CENTRES), min(m, 1024)
    # the covariance; the kernel of the regression and its Cholesky decomposition, with the left-out targets below it
    metric = centres * columns**2 + centres * (centres + left_out) * columns / 2
    metric += centres**3 / 6 + left_out * centres**2 / 2
    # leave-one-out distances to the references, for every shrinkage: two products and one exponential of each pair
    references = left_out * (len(SHRINKAGES) * min(m, CHOOSING) + min(m, REFERENCES))
    metric += 2 * references * columns
    exponentials = centres * (centres + left_out) + references
    return {
        "features": (
            "product, arithmetic",
            (n + m) * (work.products / product + work.operations / (1e9 * rates.arithmetic)),
        ),
        "metric": ("product, exponential", metric / product + exponentials / exponential),
        "cost": ("product", pairs * columns / product),
        "classes": (
            "product, exponential",
            n * centres * columns / product + (_CLASS_PASSES * pairs + n * centres) / exponential,
        ),
        "transport": ("exponential", passes * pairs / exponential),
        "summary": (
            "float64 exponential, sums by class",
            pairs * (1e-9 / rates.exponential64 + 1e-9 / rates.class_sum),
        ),
    }


def _cost_in_used_memory(found: Match) -> str:
    """Seconds of the cost where its memory need not come from the operating system: right after it was computed."""
    rows, others = found.features
    distance = found.feature_map.distance(rows, others, found.settings["metric"])
    storage = found.settings["storage"]
    seconds = min(timed(lambda: Cost.from_distance(distance, storage=storage).maximum)[0] for _ in range(3))
    return f" In memory that the process has already, the cost takes {seconds:.3g} s."


def _columns(found: Match) -> int:
    return int(found.features[0].shape[1])


def _shares(
    title: str, seconds: dict[str, float], bounds: dict[str, tuple[str, float]], found: Match, further: str = ""
) -> Table:
    rows = []
    for stage, taken in seconds.items():
        bound, least = bounds.get(stage, ("-", float("nan")))
        known = bound != "-" and taken > 0
        rows.append(
            {"stage": stage, "seconds": taken, "bound by": bound, "limit (s)": least if known else None}
            | {"share of the limit": min(1.0, least / taken) if known else None}
            | {"share of the run": taken / sum(seconds.values())}
        )
    note = (
        f"{_columns(found):,} columns, {found.coupling.iterations} iterations, "
        f"cost as {found.settings['storage']}. The limit of features counts products and operations of the images of "
        f"both sets; stages without a limit are small or bound by Python.{further}"
    )
    return Table(
        title, note, ["stage", "seconds", "bound by", "limit (s)", "share of the limit", "share of the run"], rows
    )


def _growth(runs: dict[int, dict[str, float]]) -> Table:
    stages = [stage for stage in next(iter(runs.values())) if all(stage in seconds for seconds in runs.values())]
    rows: list[dict[str, Any]] = []
    for stage in stages:
        slope = growth_exponent([(n, seconds[stage]) for n, seconds in runs.items()])
        rows.append(
            {"stage": stage, **{f"{n:,}": seconds[stage] for n, seconds in runs.items()}}
            | {"slope": None if slope is None else f"n^{slope:.2f}"}
        )
    note = "Seconds by number of digits on each side, and the exponent k of seconds ~ n^k where a stage takes 0.1 s."
    return Table("Growth of each stage", note, ["stage", *(f"{n:,}" for n in runs), "slope"], rows)


def _photographs(n: int, rates: Rates) -> Table:
    """Photographs as JPEG files: reading against Pillow alone, then the stages of a match of two halves."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        files = _write_photographs(root, n)
        pillow = _decode_seconds(files)
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # images are reduced
            sides = [load(root / side) for side in ("source", "target")]
        read = time.perf_counter() - start
        found, seconds = _run(sides[0], sides[1], read)
    bounds = _bounds(found, rates) | {"read": ("Pillow", pillow)}
    title = f"{n:,} photographs of {_PIXELS} pixels, half of them turned: {sum(seconds.values()):.1f} s"
    return _shares(title, seconds, bounds, found)


def _write_photographs(root: Path, n: int) -> list[Path]:
    """JPEG files of blurred noise with a spectrum of its own for each class, half of them turned."""
    from scipy.ndimage import gaussian_filter

    random, files = np.random.default_rng(0), []
    for k in range(n):
        kind, side = k % _CLASSES, "source" if k < n // 2 else "target"
        widths = 2 + kind, 2 + 2 * ((kind * 5) % _CLASSES)
        grain = gaussian_filter(random.normal(size=(_PIXELS, _PIXELS)), widths)
        pixels = np.uint8(np.clip(128 + 50 * grain / grain.std(), 0, 255))
        image = Image.merge("RGB", [Image.fromarray(pixels)] * 3)
        if side == "source":
            image = image.rotate(float(random.uniform(0, 360)), Image.Resampling.BICUBIC)
        path = root / side / str(kind) / f"{k}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path, quality=90)
        files.append(path)
    return files


def _decode_seconds(files: list[Path]) -> float:
    """Pillow alone: decoding in draft mode and reducing to 128 pixels, on all cores."""

    def decode(path: Path) -> int:
        with Image.open(path) as image:
            image.draft("RGB", (128, 128))
            return len(image.convert("RGB").resize((128, 128), Image.Resampling.BOX).tobytes())

    start = time.perf_counter()
    with ThreadPoolExecutor(core_count()) as pool:
        list(pool.map(decode, files))
    return time.perf_counter() - start


def _provided(size: int) -> float:
    """Seconds that the operating system takes to provide ``size`` bytes of new memory to all cores."""
    start = time.perf_counter()
    with ThreadPoolExecutor(core_count()) as pool:
        list(pool.map(lambda _: np.ones(2**23, dtype=np.uint16), range(-(-size // 2**24))))
    return time.perf_counter() - start


def _exponential_rate(repeats: int, dtype: type) -> float:
    values: NDArray[Any] = np.linspace(-20, 0, 2**14).astype(dtype)
    outs = [np.empty_like(values) for _ in range(core_count())]
    rounds = 500

    def work(core: int) -> None:
        for _ in range(rounds):
            np.exp(values, out=outs[core])

    return core_count() * rounds * len(values) / _on_all_cores(work, repeats=repeats) / 1e9
