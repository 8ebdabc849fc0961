"""Cache of compiled kernels: reused, damaged, and after changes of the sources."""

import os
import subprocess
import sys
import time

import pytest

PROGRAM = """
import sys, numpy as np
from bispectral_ot import runtime
from bispectral_ot.compiled import njit
sys.path.insert(0, {folder!r})
with runtime.running(message=print):
    from bispectral_ot_extra import twice
    print("answer", twice(np.arange(3.0)).tolist())
"""
KERNEL = "from bispectral_ot.compiled import njit\n\n@njit(cache=True)\ndef twice(x):\n    return 2 * x\n"

FEATURES = """
import numpy as np
from bispectral_ot.features import LocalBispectrum
images = np.random.default_rng(0).random((3, 28, 28))
print(LocalBispectrum().fit(images).transform(images).tobytes().hex())
"""
AHEAD = """
from pathlib import Path
from bispectral_ot.compiled import compile_ahead
from bispectral_ot.costs.cost_kernels import sweep_rows
compile_ahead(sweep_rows, "open('first', 'w')")
Path(sweep_rows._cache.cache_path).mkdir(parents=True)
compile_ahead(sweep_rows, "open('second', 'w')")
"""


@pytest.fixture
def run(tmp_path):
    """Compile and call a kernel in a new process; what it says."""
    (tmp_path / "bispectral_ot_extra.py").write_text(KERNEL)

    def call() -> list[str]:
        environment = os.environ | {"BISPECTRAL_OT_CACHE": str(tmp_path / "cache")}
        command = [sys.executable, "-c", PROGRAM.format(folder=str(tmp_path))]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        *said, answer = done.stdout.splitlines()
        assert answer == "answer [0.0, 2.0, 4.0]"
        return said

    return call


def entries(tmp_path):
    return [path for path in (tmp_path / "cache" / "kernels").rglob("*") if path.is_file()]


def test_kernels_are_compiled_once_and_again_only_where_their_source_changes(run, tmp_path):
    assert run() == ["compiling kernels, once; this takes some seconds"]
    assert run() == []
    source = tmp_path / "bispectral_ot_extra.py"
    os.utime(source, (1, 1))  # an upgrade that writes the same source
    assert run() == []
    source.write_text(KERNEL + "# changed\n")
    assert len(run()) == 1


@pytest.mark.parametrize(("suffix", "damage"), [(".nbi", b"text"), (".nbc", b""), (".nbc", b"text"), (".nbc", None)])
def test_a_damaged_cache_is_made_again(run, tmp_path, suffix, damage):
    run()
    (path,) = [path for path in entries(tmp_path) if path.suffix == suffix]
    content = path.read_bytes()
    path.write_bytes(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:] if damage is None else damage)
    assert run()[0].startswith("the cache of compiled kernels was damaged and is rebuilt")
    assert run() == []


def test_a_folder_that_others_can_write_to_is_no_cache(run, tmp_path):
    (tmp_path / "cache" / "kernels").mkdir(parents=True)
    (tmp_path / "cache" / "kernels").chmod(0o777)
    run()
    assert entries(tmp_path) == []


def test_the_process_that_compiles_kernels_computes_the_same_digits_as_later_ones(tmp_path):
    environment = os.environ | {"BISPECTRAL_OT_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", FEATURES]
    first, second = (subprocess.run(command, env=environment, capture_output=True, check=True) for _ in range(2))
    assert first.stdout == second.stdout


def test_kernels_are_compiled_ahead_only_if_the_cache_has_none(tmp_path):
    environment = os.environ | {"BISPECTRAL_OT_CACHE": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", AHEAD], env=environment, cwd=tmp_path, check=True)
    deadline = time.monotonic() + 30
    while not (tmp_path / "first").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)
    assert not (tmp_path / "second").exists()
