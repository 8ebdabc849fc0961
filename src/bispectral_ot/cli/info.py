"""Command ``info``: versions, threads, folders and extras, for bug reports."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from typing import Annotated

import typer

from bispectral_ot.cli.console import print_facts
from bispectral_ot.memory import available_memory, format_bytes

# The modules that each extra of pyproject.toml brings.
EXTRAS = {
    "demo": ("mlxtend",),
    "dask": ("dask", "distributed"),
    "meshes": ("trimesh",),
    "hdf5": ("h5py",),
    "zarr": ("zarr",),
    "parquet": ("pyarrow",),
    "cryoem": ("starfile",),
    "fits": ("astropy",),
    "tiff": ("tifffile", "imagecodecs"),
    "torch": ("torch",),
    "onnx": ("onnxruntime",),
    "studies": ("skimage",),
    "bench": ("jax", "ott"),
}
_VARIABLES = ("BISPECTRAL_OT_CACHE", "BISPECTRAL_OT_DATA", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "TMPDIR")


def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show versions, threads, folders and extras.

    Example: bispectral-ot info
    """
    found = facts()
    if as_json:
        from bispectral_ot.files import to_json

        typer.echo(to_json(found))
        return
    shown = {}
    for name, value in found.items():
        text = ", ".join(f"{key} {each}" for key, each in value.items()) if isinstance(value, dict) else str(value)
        shown[name.replace("_", "-")] = text or "none"
    print_facts(shown)


def facts() -> Mapping[str, object]:
    """Versions, machine, folders and extras."""
    from bispectral_ot.files import cache_folder
    from bispectral_ot.runs import provenance

    origin = provenance()
    machine = origin["machine"]
    return {
        "bispectral_ot": origin["bispectral_ot"],
        "python": origin["python"],
        "libraries": origin["libraries"],
        "system": f"{machine['system']}, {machine['processor']}",
        "threads": machine["cores"],
        "memory": f"{format_bytes(available_memory())} of {format_bytes(machine['memory_bytes'])} are free",
        "cache": str(cache_folder("mnist").parent),
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        "extras": {extra: "yes" if _present(modules) else "no" for extra, modules in EXTRAS.items()},
    }


def _present(modules: tuple[str, ...]) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in modules)
