"""Byte budgets: reading, writing and measuring them."""

import io
import os
import subprocess
import sys

import numpy as np
import pytest

from bispectral_ot import memory
from bispectral_ot.errors import InputError
from bispectral_ot.memory import available_memory, default_budget, format_bytes, parse_bytes, reserved_memory_map

MB = 2**20
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
SIZES = {"4GB": 4 * 10**9, "800 MB": 800 * 10**6, "1.5GiB": 3 * 2**29, ".5kb": 500, "  2 tib ": 2**41, "7B": 7, 5: 5}
SIZES |= {"123": 123, 2.5e9: 2_500_000_000, np.int64(12): 12, np.float32(16): 16}


def test_sizes_are_read_and_written():
    assert {text: parse_bytes(text) for text in SIZES} == SIZES
    for text in ("", "GB", "4 parsecs", "4GB5", "-1GB", "0", -3, 0.4, "0.4", float("nan"), float("inf"), True, None):
        with pytest.raises(InputError, match="cannot read the memory size") as raised:
            parse_bytes(text)
        assert repr(text) in str(raised.value)
    written = {0: "0 B", 999: "999 B", 1000: "1.0 kB", 3.6e9: "3.6 GB", 1.2e13: "12.0 TB"}
    assert {count: format_bytes(count) for count in written} == written


@pytest.fixture
def cgroup(tmp_path, monkeypatch):
    """A machine with 8 GB free, and this process in the control groups that are given."""
    (tmp_path / "root").mkdir()
    monkeypatch.setattr(memory, "_CGROUPS", str(tmp_path / "root"))
    monkeypatch.setattr(memory, "_OWN_CGROUPS", str(tmp_path / "own"))
    files = {"/proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n"}
    monkeypatch.setattr(memory, "open", lambda path: io.StringIO(files[path]), raising=False)

    def make(own: str, groups: dict[str, tuple], names=("memory.max", "memory.current", "inactive_file")):
        (tmp_path / "own").write_text(own)
        for group, (limit, used, cached) in groups.items():
            place = tmp_path / "root" / group
            place.mkdir(parents=True, exist_ok=True)
            (place / names[0]).write_text(f"{limit}\n")
            (place / names[1]).write_text(f"{used * MB}\n")
            (place / "memory.stat").write_text(f"anon 5\n{names[2]} {cached * MB}\nactive_file 7\n")
        return available_memory() // MB

    return make


def test_the_limits_of_the_own_control_group_and_of_those_above_count(cgroup):
    job = "system.slice/slurmstepd.scope/job_7"
    own = f"0::/{job}/step_0\n"
    assert cgroup("", {}) == 8192  # none
    assert cgroup(own, {"": ("max", 9000, 0), f"{job}/step_0": ("max", 900, 0)}) == 8192  # no limit anywhere
    assert cgroup(own, {job: (2048 * MB, 1024, 0)}) == 1024
    assert cgroup(own, {f"{job}/step_0": (1024 * MB, 900, 100)}) == 224  # pages of files can be had
    assert default_budget() == int(0.7 * 224 * MB)


def test_limits_of_version_1_and_of_containers_count(cgroup):
    own = "5:cpu,cpuacct:/x\n4:memory:/slurm/uid_1/job_7\n0::/\n"
    assert cgroup(own, {"memory/slurm/uid_1/job_7": (2**63 - 4096, 1024, 0)}, V1) == 8192  # "no limit"
    assert cgroup(own, {"memory/slurm/uid_1/job_7": (2048 * MB, 1024, 0)}, V1) == 1024
    # a container sees the path of its host
    assert cgroup("0::/docker/abc\n", {"": (3072 * MB, 1024, 0)}) == 2048
    assert cgroup("4:memory:/docker/abc\n", {"memory": (1024 * MB, 512, 0)}, V1) == 512


def measured(program: str) -> list[int]:
    """Numbers that a new process prints, since this one has a history."""
    names = "from bispectral_ot.memory import peak_memory\n"
    done = subprocess.run([sys.executable, "-c", names + program], capture_output=True, text=True, check=True)
    return [int(each) for each in done.stdout.split()]


def test_the_peak_is_that_of_this_process_and_stays_after_the_memory_is_given_back():
    parents = np.ones(5 * 10**7)  # not counted
    (grown,) = measured("before = peak_memory(); len(b'x' * 10**8); print(peak_memory() - before)")
    del parents
    assert 0.9e8 < grown < 1.3e8
    assert 10**6 < available_memory() < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_a_reserved_map_is_an_array_of_zeros_that_leaves_no_file(tmp_path, monkeypatch):
    for _ in range(2):
        array = reserved_memory_map((300, 7), folder=tmp_path)
        assert (array.shape, array.dtype) == ((300, 7), np.float32)
        assert not array.any()
        array[:] = 3
        assert array.sum() == 3 * 2100
        assert list(tmp_path.iterdir()) == []  # not even while it is used
        assert reserved_memory_map((0, 7), folder=tmp_path).shape == (0, 7)
        monkeypatch.delattr(os, "posix_fallocate", raising=False)  # macOS


def test_a_full_disk_is_an_error_before_anything_is_written(tmp_path):
    """Not a bus error at some later write; here the disk is a limit of the size of files, in a new process."""
    program = (
        "import resource, signal, sys; from bispectral_ot.memory import reserved_memory_map\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (10**5, 10**5))\n"
        "reserved_memory_map((100, 100), folder=sys.argv[1])\n"
        "try: reserved_memory_map((1000, 100), folder=sys.argv[1])\n"
        "except OSError: print('refused')"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("refused\n", "", 0)
    assert list(tmp_path.iterdir()) == []
