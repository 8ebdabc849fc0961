"""Jobs: the steps common to all commands, from the names of datasets to the run folder."""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bispectral_ot import options as opt
from bispectral_ot import runtime
from bispectral_ot.checks import Split, is_feature_expression, parse_size, vector_files
from bispectral_ot.cli import kept
from bispectral_ot.cli.console import print_json, printing, progress_bars, shown_warnings
from bispectral_ot.errors import DataWarning, InputError

if TYPE_CHECKING:
    from bispectral_ot.datasets import Dataset
    from bispectral_ot.datasets.sources import LazyDataset, Positions

Listed = tuple[list["LazyDataset"], list["Positions"]]
SET_HELP = (
    "A name from `datasets list`, a folder of images or of 3-D shapes, or a file: arrays (.npz, .npy, IDX, HDF5, "
    "Zarr), a .csv of paths and labels, and others (docs/files.md)"
)
# A small match without local features: their kernels are needed first, and take longest to compile.
_LAST_STAGES = (
    "import gc; gc.disable(); import bispectral_ot as bot; "
    "bot.match(*bot.split_halves(bot.load('digits'), per_class=8), features='global-bispectrum')"
)
# Outcome of a job: content of results.json, whether all solves met their tolerance, and how to print it.
Result = tuple[Mapping[str, object], bool, Callable[[], None]]


@contextmanager
def noted(scratch: Path | None) -> Iterator[None]:
    """Record what an interrupted block has saved, for the message at exit."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as stop:
        finished = f"no output was written; finished parts are kept in {scratch}, and the same command resumes there"
        kept.extend(getattr(stop, "__notes__", [finished] if scratch and scratch.exists() else []))
        raise


def run_job(
    verb: str,
    out: Path,
    work: Callable[[Path], Result],
    *options: opt.Options,
    scratch: Path | None = None,
    **words: str | Path | list[str],
) -> None:
    """Do the work of a command in a new run folder, record and print it; ``options`` and ``words`` are for run.json."""
    from bispectral_ot.compiled import compile_ahead
    from bispectral_ot.costs import cost_kernels
    from bispectral_ot.engines.cluster import connected
    from bispectral_ot.files import write_json
    from bispectral_ot.report.page import write_report
    from bispectral_ot.report.run_folder import decorate
    from bispectral_ot.runs import new_run, run_record

    start, output = time.perf_counter(), next(each for each in options if isinstance(each, opt.OutputOptions))
    machine = next((each for each in options if isinstance(each, opt.RuntimeOptions)), opt.RuntimeOptions())
    config = {"verb": verb, "out": out, **words} | {name: v for each in options for name, v in each.to_json().items()}
    inputs = [value for each in options for value in vars(each).values() if isinstance(value, Path)]
    for word in words.values():
        inputs += [Path(each.rpartition("=")[2]) for each in word] if isinstance(word, list) else [Path(word)]
    with (
        shown_warnings() as told,
        noted(scratch),
        new_run(out, verb=verb, inputs=inputs, overwrite=output.overwrite) as folder,
        connected(machine.scheduler) as engine,
        progress_bars(quiet=output.quiet) as messages,
        runtime.running(memory=machine.working_memory, engine=engine),
    ):
        write_json(folder / "run.json", run_record(config, seconds=0.0))
        compile_ahead(cost_kernels.sweep_rows, _LAST_STAGES)
        found, converged, show = work(folder)
        content = {**found, "warnings": told}
        record = run_record(config, seconds=time.perf_counter() - start) | {"messages": messages}
        write_json(folder / "run.json", record | ({"cluster": engine.record()} if engine else {}))
        write_json(folder / "results.json", content)  # the page shows warnings
        if isinstance(output, opt.ReportOptions) and output.report:
            decorate({"report.html": lambda: write_report(folder)})
            write_json(folder / "results.json", content)
    if scratch is not None:
        shutil.rmtree(scratch, ignore_errors=True)
    with printing():
        if output.as_json:
            print_json({"run": str(out), **content})
        elif not output.quiet:
            show()
    if not converged:
        raise typer.Exit(1)


def check_features(options: opt.FeatureOptions, reading: opt.ImageOptions, *, poses: bool = False) -> None:
    """Raise an :class:`InputError` if features, symmetry, metric and preparation of the images are incompatible."""
    from bispectral_ot.datasets.load import array_kind
    from bispectral_ot.features import choose_features
    from bispectral_ot.features.encoders import load_encoder

    files = vector_files(options.features)
    kind = "vectors" if files or options.features == "vectors" else None
    features = "vectors" if files else getattr(options, "extractor", options.features)
    with warnings.catch_warnings(action="ignore", category=DataWarning):  # shown when the work is done
        choice = choose_features(features, symmetry=options.symmetry, metric=options.metric, kind=kind or "images")
    if kind and getattr(options, "encoder", None):
        raise InputError("--encoder reads images, but --features names vectors; leave one of them out.")
    for part in str(features or "").split("+"):
        if is_feature_expression(part):
            load_encoder(part)  # before the datasets are read
    if poses and choice.symmetry in (None, "none"):
        problem = f"the features {choice.name} are not rotation invariant, so poses are undefined"
        raise InputError(f"{problem}; use features with a symmetry, such as --symmetry rotation.")
    asked = _for_flat_images(reading)
    if asked and (kind or array_kind(options.symmetry, options.features)):
        raise InputError(f"{asked} is for flat images, not for spheres, 3-D shapes or vectors; leave it out.")


def _for_flat_images(reading: opt.ImageOptions) -> str:
    """First option that is set but only applies to flat images; empty if there is none."""
    names = ("rotate_source", "center", "resize", "grey")
    return next((f"--{name.replace('_', '-')}" for name in names if getattr(reading, name, False)), "")


def list_sets(words: Sequence[tuple[str, Split]], reading: opt.ImageOptions, options: opt.FeatureOptions) -> Listed:
    """Contents of sets, and the positions of the images that are used."""
    import numpy as np

    from bispectral_ot.datasets.dataset import check_flat
    from bispectral_ot.datasets.formats.array_files import read_vectors
    from bispectral_ot.datasets.load import array_kind, drawn, list_set
    from bispectral_ot.datasets.transforms import half_positions

    kind = array_kind(options.symmetry, options.features)
    known = {}
    for name, split in dict.fromkeys(words):
        source: Any = read_vectors(name) if options.features == "vectors" else name
        known[name, split] = list_set(source, split=split, root=reading.root, seed=reading.seed).of_kind(kind)
    listings = [known[word] for word in words]
    positions = [np.arange(len(listing)) for listing in listings]
    if getattr(reading, "split_halves", False):
        if words[0] != words[1]:
            raise InputError("--split-halves needs one set as SOURCE and TARGET; name it twice, or leave it out.")
        positions = [np.sort(half) for half in half_positions(listings[0], seed=reading.seed)]
    if reading.limit is not None:
        # one random stream for each set: both sides may be the same set
        positions = [drawn(each, reading.limit, seed=reading.seed, stream=i) for i, each in enumerate(positions)]
    if asked := _for_flat_images(reading):
        for listing in listings:
            check_flat(listing, asked)
    return listings, positions


def read_listed(
    listed: Listed, reading: opt.ImageOptions, options: opt.FeatureOptions
) -> tuple[list[Dataset], dict[str, Any]]:
    """Sets at one size and in their frames, rotated and centred, and the evidence for the frames of a pair."""
    from bispectral_ot.datasets import center, rotate_randomly
    from bispectral_ot.datasets.frames import FrameChoice
    from bispectral_ot.datasets.load import read_together
    from bispectral_ot.datasets.transforms import warn_of_copies
    from bispectral_ot.features import choose_features
    from bispectral_ot.features.frame_choice import JudgedFrames

    files = vector_files(options.features)
    frames = FrameChoice("canvas" if files else reading.frame)
    if isinstance(reading, opt.PairOptions) and not files:
        named = {name: getattr(options, name) for name in ("symmetry", "metric", "intensity")}
        frames = JudgedFrames(reading.frame, partial(choose_features, options.features, **named))
    size = None if reading.resize is None else parse_size(reading.resize)
    rows = _vectors(listed, files) if files else []  # before images are read
    datasets = read_together(*listed, size=size, grey=reading.grey, frames=frames)
    for place, vectors in enumerate(rows):
        own = datasets[place]
        datasets[place] = replace(own, kind="vectors", vectors=vectors[own.positions], placement=None)
    if getattr(reading, "rotate_source", False):
        warn_of_copies(*datasets)  # not detectable after the rotation
        datasets[0] = rotate_randomly(datasets[0], seed=reading.seed)
    return [center(each) for each in datasets] if reading.center else datasets, frames.settings


def _vectors(listed: Listed, files: Sequence[str]) -> list[Any]:
    """Vectors (n, columns) of all images of each set, from files."""
    from bispectral_ot.datasets.formats.array_files import read_vectors

    if len(files) == 1 and len(set(map(id, listed[0]))) == 1:
        files = list(files) * len(listed[0])  # both sides of --split-halves
    if len(files) != len(listed[0]):
        raise InputError(f"--features needs {len(listed[0])} files, one for each set (A.npy,B.npy); got {len(files)}.")
    found = [read_vectors(file).signals for file in files]
    for listing, file, rows in zip(listed[0], files, found, strict=True):
        if len(rows) != len(listing):
            problem = f"{file} has {len(rows):,} rows for the {len(listing):,} images of {listing.name!r}"
            raise InputError(f"{problem}; give one row for each image, in the order of the set.")
    return found
