"""The package as a whole: what importing loads, what is public and shipped, and whether examples are true."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import bispectral_ot

# Each takes a good part of a second to load, or is not needed by everybody.
HEAVY = (
    "numba",
    "sklearn",
    "scipy",
    "matplotlib",
    "pandas",
    "ot",
    "torch",
    "dask",
    "pooch",
    "PIL",
    "rich",
    "typer",
)
SOURCE = Path(bispectral_ot.__file__).parent
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(bispectral_ot.__path__, "bispectral_ot.")
    if not module.name.startswith("bispectral_ot.cli")
)


def modules_after(statements: str) -> set[str]:
    program = f"import sys\n{statements}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy():
    loaded = modules_after(
        "import bispectral_ot\nbispectral_ot.InputError, bispectral_ot.__version__, dir(bispectral_ot)"
    )
    assert not loaded & set(HEAVY)


def test_importing_the_package_has_no_output():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import bispectral_ot"], capture_output=True, check=True
    )
    assert done.stdout == done.stderr == b""


@pytest.mark.parametrize(
    ("used", "unused"),
    [
        ("bot.Dataset, bot.Cost", ("numba", "sklearn", "scipy", "matplotlib", "pandas", "ot", "typer")),
        ("bot.match, bot.Sinkhorn", ("matplotlib", "ot", "torch", "dask", "typer", "pooch")),
    ],
)
def test_what_is_not_used_is_not_loaded(used, unused):
    assert not modules_after(f"import bispectral_ot as bot\n{used}") & set(unused)


def test_every_public_name_exists_and_is_listed():
    assert len(set(bispectral_ot.__all__)) == len(bispectral_ot.__all__)
    for name in bispectral_ot.__all__:
        assert getattr(bispectral_ot, name) is not None
    assert set(bispectral_ot.__all__) == set(dir(bispectral_ot))


def test_type_checkers_see_the_same_names_as_programs():
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bispectral_ot")
        for alias in node.names
    }
    assert imported == set(bispectral_ot.__all__)


def test_everything_public_has_a_docstring():
    undocumented = [name for name in bispectral_ot.__all__ if not getattr(bispectral_ot, name).__doc__]
    assert not undocumented


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_verb"):
        bispectral_ot.no_such_verb  # noqa: B018


@pytest.mark.parametrize("name", MODULES)
def test_every_module_imports_and_lists_only_what_it_has(name):
    module = importlib.import_module(name)
    assert all(hasattr(module, public) for public in getattr(module, "__all__", ()))


def test_types_are_shipped():
    assert (SOURCE / "py.typed").is_file()


def test_rooms_import_only_from_rooms_to_their_left():
    """The one straight way for the data: nobody reaches back."""
    way = [
        "engines",
        "groups",
        "datasets",
        "invariants",
        "costs",
        "transport",
        "matching",
        "report",
        "studies",
        "benchmarks",
        "cli",
    ]
    for room in way:
        for file in (SOURCE / room).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bispectral_ot."):
                    used = node.module.split(".")[1]
                    assert used not in way or way.index(used) <= way.index(room), f"{file.name} imports {node.module}"


@pytest.mark.parametrize("name", ["bispectral_ot", *MODULES])
def test_the_examples_in_docstrings_are_true(name):
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert failed == 0
