"""The program around its verbs: help, version, exit codes, signals, and the installed script."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from bispectral_ot import __version__
from bispectral_ot.engines import Threads, cluster
from bispectral_ot.store import write_record
from bispectral_ot.transport import iteration

SCRIPT = Path(sys.executable).with_name("bispectral-ot")
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason=f"the program is not installed at {SCRIPT}")


STARTED: list[subprocess.Popen[str]] = []


def start(*words: object, command: tuple = (SCRIPT,), **options) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    STARTED.append(subprocess.Popen([*command, *map(str, words)], **pipes, **options))
    return STARTED[-1]


@pytest.fixture(autouse=True)
def nothing_runs_on():
    """What a failed test has started would keep a core busy for hours."""
    yield
    while STARTED:
        STARTED.pop().kill()


def test_the_program_runs_as_a_module():
    stdout, _ = start("--version", command=(sys.executable, "-m", "bispectral_ot")).communicate()
    assert stdout == f"bispectral-ot {__version__}\n"


def test_help_loads_none_of_the_heavy_libraries():
    code = (
        "import sys; from bispectral_ot.cli.main import app\n"
        "try: app(['match', '--help'])\n"
        "except SystemExit: print(sorted({'numpy', 'numba', 'scipy', 'sklearn', 'matplotlib'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.rstrip().endswith("[]")


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
    words = ("match", sets / "a.npz", sets / "b.npz", *ENDLESS, "--json", "-q", "--out", out)
    process, deadline = start(*words, preexec_fn=ignore_interrupts), time.monotonic() + 60
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


@pytest.mark.parametrize(("sign", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_results_that_are_complete_are_kept(sets, finished, tmp_path, sign, code):
    """A signal while figures are drawn costs the figures, not the match; while a page is made, not the page before."""
    program = f"""
import os, signal, sys
from bispectral_ot import drawing
from bispectral_ot.cli import run
from bispectral_ot.report import page
drawing.save = page.build_page = lambda *_: os.kill(os.getpid(), signal.{sign})
run()
"""
    words = ["match", sets / "a.npz", sets / "b.npz", "--features", "pixels", "-q", "--out", tmp_path / "run"]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert f"the results are complete and kept at {tmp_path / 'run'}" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    written = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"matches.csv", "labels.csv", "confusion.csv", "results.json", "run.json", "model.npz"} <= written
    page = shutil.copytree(finished, tmp_path / "copy") / "report.html"
    page.write_text("before")
    done = subprocess.run([sys.executable, "-c", program, "report", page.parent], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert page.read_text() == "before"


def test_a_solve_that_goes_on_says_so_on_the_screen_and_in_its_record(program, sets, tmp_path, monkeypatch):
    class Engine(Threads):
        def record(self) -> dict[str, int]:
            return {"workers": 1}

    def stop(path: Path, record: object) -> None:
        write_record(path, record)
        raise RuntimeError("cut off")

    monkeypatch.setattr(cluster, "connected", lambda _: nullcontext(Engine()))
    words = ("match", sets / "a.npz", sets / "b.npz", "--scheduler", "local:1", "--reg", "0.002", "--tol", "1e-8")
    words += ("--out", tmp_path / "run")
    with monkeypatch.context() as short:
        short.setattr(iteration, "EVERY", 0.0)
        short.setattr(iteration, "write_record", stop)
        assert program(*words).code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["run.solve.npz"]
    outcome = program(*words)
    assert outcome.code == 0, outcome.stderr
    assert "transport: resumed at iteration " in outcome.stderr
    messages = json.loads((tmp_path / "run" / "run.json").read_text())["messages"]
    assert [each for each in messages if each.startswith("transport: resumed at iteration ")]


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
    assert all((tmp_path / name / "results.json").is_file() for name in ("run", "run-2"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
def test_output_to_a_full_device(sets, tmp_path):
    """The run is kept, the message is true, and there is no traceback."""
    words = [SCRIPT, "match", sets / "a.npz", sets / "b.npz", "--json", "-q", "--no-figures", "--out", tmp_path / "run"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "cannot write to standard output" in done.stderr
        assert (tmp_path / "run" / "results.json").is_file()
        again = subprocess.run(words, stdout=subprocess.PIPE, stderr=full, text=True)
    assert again.returncode == 2
    assert "already contains files" in json.loads(again.stdout)["error"]


def test_an_interrupt_that_python_drops_is_not_lost():
    """What is raised in a destructor is dropped; the program stops all the same."""
    program = """
import os, signal, time
from bispectral_ot.cli import main, run

class Dropping:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        sum(range(1000))

@main.app.command()
def wait():
    Dropping()
    print("still here", flush=True)
    time.sleep(50)

run()
"""
    done = subprocess.run([sys.executable, "-c", program, "wait"], capture_output=True, text=True, timeout=40)
    assert (done.stdout, done.returncode) == ("still here\n", 143)  # it was dropped, and came again
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("sign", "code", "seconds"), [(signal.SIGINT, 130, 0.1), (signal.SIGTERM, 143, 0.5)])
def test_a_signal_in_the_first_second_is_no_traceback(sets, tmp_path, sign, code, seconds):
    command = sys.executable, "-c", "from bispectral_ot.cli import run; print('up', flush=True); run()"
    words = ("match", sets / "a.npz", sets / "b.npz", "-q", "--out", tmp_path / "run")
    process = start(*words, command=command, preexec_fn=ignore_interrupts)
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
    assert done.stderr == "error: the current folder was deleted; change to another folder.\n"


def test_a_bug_is_told_apart_from_a_result(program, monkeypatch):
    """Exit code 1 means "not converged", so that an unexpected error needs another one."""
    monkeypatch.setattr("bispectral_ot.runs.provenance", Mock(side_effect=ZeroDivisionError))
    outcome = program("info", "--json")
    assert outcome.code == outcome.json["exit_code"] == 3
    assert "ZeroDivisionError" in outcome.stderr
    assert "please report it" in outcome.json["error"]


GOOD = (
    *("--version", "info", "match A B --out NEW", "match A B --dry-run --out NEW", "predict RUN A --out NEW"),
    *("compare A B --out NEW", "upright A B --out NEW", "demo --per-class 2 --out NEW", "monitor MANY --model NEW.npz"),
    *("report RUN", "datasets list", "datasets fetch digits", "datasets show A"),
)
BAD = (
    *("match", "match A none --out NEW", "match A B --reg x --out NEW", "match A B --out RUN", "upright A", "nothing"),
    *("predict none A --out NEW", "compare A --out NEW", "monitor none.npz A", "report none", "datasets show none"),
)
CODES = {**dict.fromkeys(GOOD, 0), "match A B --max-iter 1 --out NEW": 1, **dict.fromkeys(BAD, 2)}


@pytest.fixture(scope="module")
def finished(program, sets, tmp_path_factory):
    out = tmp_path_factory.mktemp("finished") / "run"
    assert program("match", sets / "a.npz", sets / "b.npz", "-q", "--out", out).code == 0
    return out


@pytest.mark.parametrize(("words", "code"), CODES.items(), ids=[*CODES])
def test_exit_codes_and_json_of_all_commands(program, sets, finished, tmp_path, words, code):
    """Standard output is one JSON document; an error has its message and exit code."""
    places = {"A": sets / "a.npz", "B": sets / "b.npz", "RUN": finished, "NEW": tmp_path / "new"}
    places |= {"NEW.npz": tmp_path / "new.npz", "MANY": tmp_path / "many.npy"}
    np.save(places["MANY"], np.random.default_rng(0).normal(size=(40, 8, 8)))
    given = [places.get(word, word) for word in words.split()]
    outcome = program(*given) if words == "--version" else program(*given, "--json")
    assert outcome.code == code, outcome.stderr
    if words == "--version":
        assert outcome.stdout == f"bispectral-ot {__version__}\n"
    elif code == 2:
        assert outcome.json["exit_code"] == 2
        assert outcome.json["error"] in outcome.stderr
    else:
        assert "error" not in outcome.json
