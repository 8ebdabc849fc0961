"""The verb ``info``: versions, threads, folders and extras, for a report of a problem."""

from __future__ import annotations

import importlib.util
import os
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from bispectral_ot.cli.console import output
from bispectral_ot.memory import available_memory, format_bytes

# The modules that each extra of pyproject.toml brings.
EXTRAS = {
    "demo": ("mlxtend",),
    "dask": ("dask", "distributed"),
    "meshes": ("trimesh",),
    "hdf5": ("h5py",),
    "zarr": ("zarr",),
    "parquet": ("pyarrow",),
    "cryoem": ("mrcfile", "starfile"),
    "fits": ("astropy",),
    "tiff": ("tifffile",),
    "studies": ("skimage",),
    "bench": ("jax", "ott"),
}
_VARIABLES = ("BISPECTRAL_OT_CACHE", "BISPECTRAL_OT_DATA", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "TMPDIR")


def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Say which versions, threads, folders and extras there are.

    Example: bispectral-ot info
    """
    found = facts()
    if as_json:
        from bispectral_ot.files import to_json

        typer.echo(to_json(found))
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in found.items():
        text = ", ".join(f"{key} {each}" for key, each in value.items()) if isinstance(value, dict) else str(value)
        table.add_row(name.replace("_", "-"), Text(text or "none"))
    output.print(table)


def facts() -> dict[str, Any]:
    """What is printed."""
    from bispectral_ot.cache import cache_folder
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
