"""The program around its verbs: help, version, exit codes, signals, and the installed script."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bispectral_ot import __version__

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
    words = ("match", tmp_path / "blank.npz", "b.npz", "--json", "-q", "--features", "pixels", "--max-iter", "1")
    out = ("--out", tmp_path / "blank")
    process = start(*words, *out, cwd=sets, env=os.environ | {"PYTHONWARNINGS": "always"})
    stdout, stderr = process.communicate()
    assert process.returncode == 1
    assert json.loads(stdout)["converged"] is False
    assert {line.split(":")[0] for line in stderr.splitlines()} == {"warning"}


ENDLESS = ("--tol", "1e-300", "--max-iter", "1000000000", "--overwrite")
OLD = '{"config": {"verb": "match"}, "files": ["run.json"]}'


def ignore_interrupts() -> None:
    """As a shell does for a job in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def start_endless(sets: Path, out: Path) -> subprocess.Popen[str]:
    """A match that would take hours, in its middle; at ``out`` is an older run."""
    out.mkdir(exist_ok=True)
    (out / "run.json").write_text(OLD)
    process = start(
        "match", sets / "a.npz", sets / "b.npz", *ENDLESS, "--json", "-q", "--out", out, preexec_fn=ignore_interrupts
    )
    deadline = time.monotonic() + 60
    while not list(out.parent.glob(f".{out.name}-partial-*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)
    return process


@pytest.mark.parametrize(
    ("sign", "code", "words"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "no output was written")]
)
def test_interrupting_leaves_nothing_behind(sets, tmp_path, sign, code, words):
    """A run that would take hours is stopped in its middle; the old run stays."""
    process = start_endless(sets, tmp_path / "run")
    process.send_signal(sign)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == code
    assert (json.loads(stdout)["exit_code"], words in json.loads(stdout)["error"]) == (code, True)
    assert stderr.count("\n") == 1
    assert words in stderr
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert (tmp_path / "run" / "run.json").read_text() == OLD


def test_two_runs_with_one_place_are_both_kept(sets, tmp_path):
    """What is at --out by the end of a run is never replaced; the run gets another name and exit code 1."""
    words = ("match", sets / "a.npz", sets / "b.npz", "--out", tmp_path / "run", "--json", "--no-figures")
    first, second = start(*words), start(*words)
    outcomes = sorted((json.loads(process.communicate(timeout=100)[0]) for process in (first, second)), key=len)
    if "already contains" in outcomes[0]["error"]:
        pytest.skip("the first had ended before the second began")
    assert sorted(process.returncode for process in (first, second)) == [0, 1]
    assert outcomes[0]["run"] == str(tmp_path / "run-2")
    assert outcomes[0]["exit_code"] == 1
    assert outcomes[1]["run"] == str(tmp_path / "run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run-2"]
    for name in ("run", "run-2"):
        assert (tmp_path / name / "results.json").is_file()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_to_a_full_device(sets, tmp_path, unbuffered):
    """The run is kept, the message is true, and there is no traceback."""
    words = [SCRIPT, "match", sets / "a.npz", sets / "b.npz", "--json", "-q", "--no-figures", "--out", tmp_path / "run"]
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, env=environment)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "cannot write to standard output" in done.stderr
        assert (tmp_path / "run" / "results.json").is_file()
        again = subprocess.run(words, stdout=subprocess.PIPE, stderr=full, text=True, env=environment)
    assert again.returncode == 2
    assert "already contains files" in json.loads(again.stdout)["error"]


@pytest.mark.parametrize(
    "words",
    [
        *(("match",), ("match", "a"), ("nothing",), ("--nothing",), ("report", "none"), ("monitor", "none.npz", "a")),
        *(("predict", "none", "a", "--out", "run"), ("compare", "a", "b", "--out", "run"), ("demo", "--seed", "x")),
        *(("match", "a", "b", "--reg", "x", "--out", "run"), ("match", "none", "b", "--out", "run"), ("upright", "a")),
    ],
    ids=" ".join,
)
def test_every_error_is_json_where_that_is_asked_for(program, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    outcome = program(*words, "--json")
    assert outcome.code == outcome.json["exit_code"] == 2
    assert outcome.json["error"].split()[0] in outcome.stderr


@pytest.mark.parametrize(("sign", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_an_interrupt_that_python_drops_is_not_lost(sign, code):
    """What is raised in a destructor is dropped; the program stops all the same."""
    program = f"""
import os, signal, time
from bispectral_ot.cli import main, run

class Dropping:
    def __del__(self):
        os.kill(os.getpid(), signal.{sign})
        sum(range(1000))

@main.app.command()
def wait():
    Dropping()
    print("still here", flush=True)
    time.sleep(50)

run()
"""
    done = subprocess.run([sys.executable, "-c", program, "wait"], capture_output=True, text=True, timeout=40)
    assert (done.stdout, done.returncode) == ("still here\n", code)  # it was dropped, and came again
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("seconds", [0.1, 0.3, 1.0])
def test_a_signal_in_the_first_second_is_no_traceback(sets, tmp_path, sign, code, seconds):
    words = "import sys; from bispectral_ot.cli import run; print('up', flush=True); run()"
    command = [sys.executable, "-c", words, "match", sets / "a.npz", sets / "b.npz", "-q", "--out", tmp_path / "run"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=ignore_interrupts
    )
    STARTED.append(process)
    assert process.stdout.readline() == "up\n"
    time.sleep(seconds)
    process.send_signal(sign)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == code, stderr
    assert "Traceback" not in stderr
    assert stderr.count("\n") <= 1
    assert list(tmp_path.iterdir()) == []


def test_a_deleted_working_directory_is_told(sets, tmp_path):
    (tmp_path / "gone").mkdir()
    words = f"cd {tmp_path / 'gone'} && rmdir {tmp_path / 'gone'} && {SCRIPT} match {sets / 'a.npz'} b.npz --out run"
    done = subprocess.run(["sh", "-c", words], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "error: the current folder does not exist any more; change to another one.\n"


def test_a_bug_is_told_apart_from_a_result(program, monkeypatch):
    """Exit code 1 means "not converged", so that an unexpected error needs another one."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("bispectral_ot.runs.provenance", broken)
    outcome = program("info", "--json")
    assert outcome.code == outcome.json["exit_code"] == 3
    assert "ZeroDivisionError" in outcome.stderr
    assert "please report it" in outcome.json["error"]
