"""The package as a whole: what importing loads, what is public and shipped, and whether examples are true."""

import ast
import importlib
import importlib.util
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bispectral_ot

# Each takes a good part of a second to load, or is not needed by everybody.
HEAVY = {"numba", "sklearn", "scipy", "matplotlib", "pandas", "ot", "torch", "dask", "pooch", "PIL", "rich", "typer"}
# A room or shared file imports only what stands before it. Rooms that are still to come may be listed.
WAY = (
    *("_version", "errors", "checks", "memory", "runtime", "options"),
    *("files", "compiled", "sampling", "drawing"),
    *("engines", "runs", "transformer", "datasets", "store", "groups"),
    *("costs", "features", "transport", "poses", "matching", "comparing", "torch", "report"),
    *("cli", "__main__"),
)
SOURCE = Path(bispectral_ot.__file__).parent
FOUND = [module.name for module in pkgutil.walk_packages(bispectral_ot.__path__, "bispectral_ot.")]
MODULES = sorted(name for name in FOUND if not name.startswith("bispectral_ot.cli"))


def modules_after(statements: str) -> set[str]:
    program = f"import sys\n{statements}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_what_is_not_used_is_not_loaded():
    names = "bispectral_ot.InputError, bispectral_ot.__version__, dir(bispectral_ot)"
    assert not modules_after(f"import bispectral_ot\n{names}") & HEAVY
    unused = {"numba", "sklearn", "scipy", "matplotlib", "pandas", "ot", "typer"}
    assert not modules_after("import bispectral_ot as bot\nbot.Dataset, bot.Cost") & unused
    unused = {"matplotlib", "ot", "torch", "dask", "typer"}
    assert not modules_after("import bispectral_ot as bot\nbot.match, bot.Sinkhorn") & unused
    command = [sys.executable, "-W", "error", "-c", "import bispectral_ot"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout == done.stderr == b""


def test_every_public_name_exists_is_listed_and_documented():
    assert len(set(bispectral_ot.__all__)) == len(bispectral_ot.__all__)
    assert all(getattr(bispectral_ot, name).__doc__ for name in bispectral_ot.__all__)
    assert set(bispectral_ot.__all__) == set(dir(bispectral_ot))
    with pytest.raises(AttributeError, match="no_such_verb"):
        bispectral_ot.no_such_verb  # noqa: B018


def test_every_module_imports_and_lists_only_what_it_has():
    torch = importlib.util.find_spec("torch") is not None
    for name in MODULES:
        if name.startswith("bispectral_ot.torch") and not torch:
            continue
        module = importlib.import_module(name)
        assert all(hasattr(module, public) for public in getattr(module, "__all__", ())), name


def imported_rooms(source: str, package: str) -> set[str]:
    """The rooms and shared files that a file of ``package`` imports, anywhere but for types; others are the top."""
    found, tree = [], ast.parse(source)
    conditions = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    kept_apart = [node for node in conditions if ast.unparse(node.test) == "TYPE_CHECKING"]
    for_types = {id(inner) for node in kept_apart for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            found += [f"{base}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            found += [word.value for word in node.args[:1] if isinstance(word, ast.Constant)]
    rooms = {(*name.split("."), "__init__")[1] for name in found if name.split(".")[0] == "bispectral_ot"}
    return {room if room in WAY else "__init__" for room in rooms}


def test_rooms_import_only_from_rooms_to_their_left():
    """The one straight way for the data: nobody reaches back, not even lazily."""
    for file in sorted(SOURCE.rglob("*.py")):
        path = file.relative_to(SOURCE)
        if path == Path("__init__.py"):
            continue
        room = path.parts[0].removesuffix(".py")
        assert room in WAY, f"{room} has no place on the way: say in WAY what may import it"
        package = ".".join(["bispectral_ot", *path.parts[:-1]])
        found = imported_rooms(file.read_text(encoding="utf-8"), package) - set(WAY[: WAY.index(room) + 1])
        # Match.save writes a run; the context of a call owns the threads of BLAS
        found -= {"matching/result.py": {"report"}, "runtime.py": {"engines"}}.get(path.as_posix(), set())
        assert not found, f"{path} imports {sorted(found)}, which come after it"


def test_kernels_are_compiled_in_one_way():
    """numba.njit itself ends in an error where no folder for its cache can be written to."""
    direct = re.compile(r"from numba import .*\bnjit\b|numba\.njit")
    users = [path for path in SOURCE.rglob("*.py") if direct.search(path.read_text("utf-8"))]
    assert users == [SOURCE / "compiled.py"]
