"""A user who can write nowhere but to --out and to the temporary folder."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bispectral_ot

# Reading is allowed, since the interpreter may be in a folder of root.
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
AS_NOBODY += ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]


@pytest.fixture
def restricted(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path, dict[str, str]]:
    """Words before a command that make it run as such a user; a folder for its output; its environment."""
    words = AS_NOBODY if os.geteuid() == 0 else []
    if words and (not shutil.which("setpriv") or subprocess.run([*words, "true"], capture_output=True).returncode):
        pytest.skip("root cannot become another user here")
    folder = tmp_path_factory.mktemp("user")
    for place in (folder, *folder.parents[:2]):
        place.chmod(0o755)
    package, home, out = folder / "package", folder / "home", folder / "out"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(bispectral_ot.__file__).parent, package / "bispectral_ot", ignore=ignored)
    for path in (*package.rglob("*"), package):
        path.chmod(0o555 if path.is_dir() else 0o444)
    home.mkdir(mode=0o555)
    out.mkdir()
    out.chmod(0o777)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(package)}
    return words, out, environment | {"PYTHONDONTWRITEBYTECODE": "1"}


def test_nothing_but_the_output_needs_to_be_writable(restricted, sets):
    before, out, environment = restricted
    shutil.copytree(sets, out / "sets")
    program = "from bispectral_ot.cli import run; run()"
    words = ["match", out / "sets" / "a.npz", out / "sets" / "b.npz", "--rotate-source", "--json", "-q", "--report"]
    options = ["--features", "pixels", "--symmetry", "none", "--out", out / "run"]
    command = [*before, sys.executable, "-c", program, *words, *options]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["converged"] is True
    assert (out / "run" / "report.html").is_file()
    if before:
        assert (out / "run").stat().st_uid == 65534


def test_a_user_without_a_home_folder_has_caches_in_the_temporary_one(tmp_path):
    """Neither a HOME nor an entry of the user in the password database: nothing called ``~`` is made."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can become a user who is not known")
    tmp_path.chmod(0o777)
    program = "from bispectral_ot.files import cache_folder; print(cache_folder('kernels'))"
    words = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", *AS_NOBODY[-2:]]
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PYTHONPATH"] = str(Path(bispectral_ot.__file__).parents[1])
    command = [*words, sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    if "ermitted" in done.stderr:
        pytest.skip("root cannot become another user here")
    assert done.stdout.strip() == str(tmp_path / "bispectral-ot-54321" / "kernels"), done.stderr
