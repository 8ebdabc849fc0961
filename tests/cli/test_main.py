"""The program around its verbs: help, version, exit codes, signals, and the installed script."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import typer

from bispectral_ot import __version__
from bispectral_ot.cli import main

SCRIPT = Path(sys.executable).with_name("bispectral-ot")
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason=f"the program is not installed at {SCRIPT}")


STARTED: list[subprocess.Popen[str]] = []


def start(*words: object, **options) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [SCRIPT, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )
    STARTED.append(process)
    return process


@pytest.fixture(autouse=True)
def nothing_runs_on():
    """What a failed test has started would keep a core busy for hours."""
    yield
    while STARTED:
        STARTED.pop().kill()


def verbs(group: typer.Typer, *before: str) -> list[tuple[str, ...]]:
    """Every verb of the program, as the words that call it."""
    command = typer.main.get_command(group)

    def walk(node: object, words: tuple[str, ...]) -> list[tuple[str, ...]]:
        inner = getattr(node, "commands", None)
        if not inner:
            return [words]
        return [verb for name, child in inner.items() for verb in walk(child, (*words, name))]

    return walk(command, before)


@pytest.mark.parametrize("verb", verbs(main.app), ids=" ".join)
def test_help_of_every_verb_has_an_example(program, verb):
    for option in ("--help", "-h"):
        outcome = program(*verb, option)
        assert outcome.code == 0
        assert f"Example: bispectral-ot {' '.join(verb)}" in " ".join(outcome.stdout.split())


def test_help_names_the_verbs_and_the_exit_codes(program):
    outcome = program("--help")
    for word in ("match", "demo", "datasets", "Exit codes", "Example"):
        assert word in outcome.stdout
    assert program("datasets", "list").code == 0


def test_help_loads_none_of_the_heavy_libraries():
    code = (
        "import sys; from bispectral_ot.cli.main import app\n"
        "try: app(['match', '--help'])\n"
        "except SystemExit: print(sorted({'numpy', 'numba', 'scipy', 'sklearn', 'matplotlib'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.rstrip().endswith("[]")


def test_the_installed_script_prints_its_version():
    process = start("--version")
    stdout, stderr = process.communicate()
    assert (process.returncode, stdout, stderr) == (0, f"bispectral-ot {__version__}\n", "")


def test_the_installed_script_matches(sets, tmp_path):
    """Whatever a user's Python is told about warnings, the program decides what to show."""
    np.savez(tmp_path / "blank.npz", images=np.zeros((2, 12, 12)))
    words = ("match", tmp_path / "blank.npz", "b.npz", "--json", "--features", "pixels", "--max-iter", "1")
    out = ("--out", tmp_path / "blank")
    process = start(*words, *out, cwd=sets, env=os.environ | {"PYTHONWARNINGS": "always"})
    stdout, stderr = process.communicate()
    assert process.returncode == 1
    assert json.loads(stdout)["converged"] is False
    assert [line.split(":")[0] for line in stderr.splitlines()] == ["warning", "warning"]


def test_a_symmetry_that_the_features_do_not_have_is_told_once(sets, tmp_path):
    words = ("match", sets / "a.npz", sets / "b.npz", "--features", "pixels", "--symmetry", "rotation", "--json")
    process = start(*words, "--out", tmp_path / "run")
    stdout, stderr = process.communicate()
    assert json.loads(stdout)["settings"]["symmetry"] == "none"
    assert re.sub(r"\s+", " ", stderr).count("the features pixels have the symmetry 'none'") == 1
    assert "DataWarning" not in stderr


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupting_leaves_nothing_behind(sets, tmp_path, sign, code):
    """A run that would take hours is stopped in its middle; the old run stays."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("old")
    endless = ("--solver", "greenkhorn", "--tol", "1e-300", "--max-iter", "1000000000", "--overwrite")
    process = start("match", sets / "a.npz", sets / "b.npz", *endless, "--out", tmp_path / "run")
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".run-partial-*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(sign)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == code
    assert stdout == ""
    assert "Traceback" not in stderr
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert (tmp_path / "run" / "run.json").read_text() == "old"


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs a timer signal")
@pytest.mark.parametrize(("sign", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_an_interrupt_that_python_drops_is_not_lost(sign, code):
    """What is raised in a destructor is dropped; the program stops all the same."""
    program = f"""
import os, signal, time
from bispectral_ot.cli import main

class Dropping:
    def __del__(self):
        os.kill(os.getpid(), signal.{sign})
        sum(range(1000))

@main.app.command()
def wait():
    Dropping()
    print("still here", flush=True)
    time.sleep(50)

main.run()
"""
    done = subprocess.run([sys.executable, "-c", program, "wait"], capture_output=True, text=True, timeout=40)
    assert (done.stdout, done.returncode) == ("still here\n", code)  # it was dropped, and came again
    assert "Traceback" not in done.stderr


def test_an_interrupt_during_the_imports_is_no_traceback():
    program = """
import builtins, os, signal
real = builtins.__import__

def interrupted(name, *rest):
    if name == "typer":
        os.kill(os.getpid(), signal.SIGINT)
    return real(name, *rest)

from bispectral_ot.cli import run
builtins.__import__ = interrupted
run()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=40)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 130)


def test_a_bug_is_told_apart_from_a_result(monkeypatch, capsys):
    """Exit code 1 means "not converged", so that an unexpected error needs another one."""

    def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(main, "app", broken)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)  # restored afterwards
    with pytest.raises(SystemExit) as exit_info:
        main.run()
    assert exit_info.value.code == 3
    shown = capsys.readouterr().err
    assert "ZeroDivisionError" in shown
    assert "please report it" in re.sub(r"\s+", " ", shown)
