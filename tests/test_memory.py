"""Byte budgets: reading, writing and measuring them."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bispectral_ot import memory
from bispectral_ot.errors import InputError, MemoryBudgetError
from bispectral_ot.memory import (
    available_memory,
    check_fits,
    default_budget,
    format_bytes,
    parse_bytes,
    reserved_memory_map,
)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4GB", 4 * 10**9),
        ("800 MB", 800 * 10**6),
        ("1.5GiB", 3 * 2**29),
        (".5kb", 500),
        ("  2 tib ", 2**41),
        ("123", 123),
        ("7B", 7),
        (5, 5),
        (2.5e9, 2_500_000_000),
        (np.int64(12), 12),
        (np.float32(16), 16),
    ],
)
def test_sizes_are_read(text, count):
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GB",
        "four",
        "4 parsecs",
        "4GB5",
        "-1GB",
        "0",
        0,
        -3,
        0.4,
        "0.4",
        float("nan"),
        float("inf"),
        True,
        None,
    ],
)
def test_what_is_no_size_is_refused_and_named(text):
    with pytest.raises(InputError) as raised:
        parse_bytes(text)
    assert repr(text) in str(raised.value)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (3.6e9, "3.6 GB"), (2.5e6, "2.5 MB"), (1.2e13, "12.0 TB")],
)
def test_sizes_are_written_for_people(count, text):
    assert format_bytes(count) == text


@given(st.integers(1, 10**15))
def test_what_is_written_can_be_read_back(count):
    assert parse_bytes(format_bytes(count)) == pytest.approx(count, rel=0.051)


MB = 2**20


@pytest.fixture
def cgroup(tmp_path, monkeypatch):
    """A machine with 8 GB free, and this process in the control groups that are given."""
    (tmp_path / "root").mkdir()
    monkeypatch.setattr(memory, "_CGROUPS", str(tmp_path / "root"))
    monkeypatch.setattr(memory, "_OWN_CGROUPS", str(tmp_path / "own"))
    files = {"/proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n"}
    monkeypatch.setattr(memory, "open", lambda path: io.StringIO(files[path]), raising=False)

    def make(
        own: str, groups: dict[str, tuple[str, int, int]], names=("memory.max", "memory.current", "inactive_file")
    ):
        (tmp_path / "own").write_text(own)
        for group, (limit, used, cached) in groups.items():
            place = tmp_path / "root" / group
            place.mkdir(parents=True, exist_ok=True)
            (place / names[0]).write_text(f"{limit}\n")
            (place / names[1]).write_text(f"{used * MB}\n")
            (place / "memory.stat").write_text(f"anon 5\n{names[2]} {cached * MB}\nactive_file 7\n")
        return available_memory() // MB

    return make


V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def test_the_limits_of_the_own_control_group_and_of_those_above_count(cgroup):
    job = "system.slice/slurmstepd.scope/job_7"
    own = f"0::/{job}/step_0\n"
    root, free = {"": ("max", 9000, 0)}, {f"{job}/step_0": ("max", 900, 0)}
    assert cgroup(own, root | free) == 8192  # no limit anywhere
    assert cgroup(own, {job: (2048 * MB, 1024, 0)}) == 1024
    assert cgroup(own, {f"{job}/step_0": (1024 * MB, 900, 100)}) == 224  # pages of files can be had
    assert default_budget() == int(0.7 * 224 * MB)


def test_limits_of_version_1_count(cgroup):
    own = "5:cpu,cpuacct:/x\n4:memory:/slurm/uid_1/job_7\n0::/\n"
    assert cgroup(own, {"memory/slurm/uid_1/job_7": (2048 * MB, 1024, 0)}, V1) == 1024
    assert cgroup(own, {"memory/slurm/uid_1/job_7": (2**63 - 4096, 1024, 0)}, V1) == 8192  # "no limit"


def test_a_container_that_sees_the_path_of_its_host(cgroup):
    assert cgroup("0::/docker/abc\n", {"": (3072 * MB, 1024, 0)}) == 2048
    assert cgroup("4:memory:/docker/abc\n", {"memory": (1024 * MB, 512, 0)}, V1) == 512


def test_without_control_groups_there_is_what_the_machine_has(cgroup):
    assert cgroup("", {}) == 8192


def test_what_is_free_on_this_machine_is_less_than_all_of_it():
    assert 10**6 < available_memory() < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_the_peak_is_that_of_this_process_and_stays_after_the_memory_is_given_back():
    # a new process, since this one has a history; what its parent uses is not counted
    parents = np.ones(5 * 10**7)
    program = (
        "from bispectral_ot.memory import peak_memory\n"
        "before = peak_memory(); len(b'x' * 10**8); print(peak_memory() - before)"
    )
    grown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    del parents
    assert 0.9e8 < int(grown) < 1.3e8


def test_a_reset_begins_a_new_peak_and_the_old_one_is_not_forgotten():
    program = (
        "from bispectral_ot.memory import peak_memory, recent_peak, reset_peak\n"
        "len(b'x' * 10**8); before = peak_memory(); reset_peak(); len(b'x' * 4 * 10**7)\n"
        "print(before - recent_peak(), peak_memory() - before)"
    )
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("this system cannot reset the peak")
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    smaller, same = map(int, told.split())
    assert 0.4e8 < smaller < 0.8e8
    assert same == 0


def test_where_the_peak_cannot_be_reset_it_is_the_peak_so_far(monkeypatch):
    def refuse(path, mode="r"):
        raise PermissionError(path)

    monkeypatch.setattr(memory, "open", refuse, raising=False)
    monkeypatch.setattr(memory, "_peak_before_reset", 0)  # of other tests in this process
    memory.reset_peak()
    before = memory.recent_peak()
    len(b"x" * (before // 2))
    memory.reset_peak()
    assert memory.recent_peak() == memory.peak_memory() >= before > 10**6


def test_a_reserved_map_is_an_array_of_zeros_that_leaves_no_file(tmp_path):
    array = reserved_memory_map((300, 7), folder=tmp_path)
    assert (array.shape, array.dtype) == ((300, 7), np.float32)
    assert not array.any()
    array[:] = 3
    assert array.sum() == 3 * 2100
    assert list(tmp_path.iterdir()) == []  # not even while it is used
    assert reserved_memory_map((0, 7), folder=tmp_path).shape == (0, 7)


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


def test_without_fallocate_the_space_is_written(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    monkeypatch.setattr(memory, "_ZEROS", 1000)
    array = reserved_memory_map((33, 33), folder=tmp_path)
    assert not array.any()
    array[32, 32] = 1


def test_no_space_is_the_usual_error(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match="No space left") as raised:
        reserved_memory_map((3, 3), folder=tmp_path)
    assert raised.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_fit_is_refused_with_advice(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    check_fits(700, "the set", "take less")
    with pytest.raises(MemoryBudgetError, match=r"the set needs 701 B of memory, but 700 B can be used; take less\."):
        check_fits(701, "the set", "take less")
