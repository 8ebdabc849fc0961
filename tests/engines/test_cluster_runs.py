"""The program and the studies on a cluster, and a scheduler that dies."""

import json
import os
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import bispectral_ot as bot
from bispectral_ot.cli.main import app
from bispectral_ot.transport import Sinkhorn

distributed = pytest.importorskip("distributed")


def test_the_program_with_a_scheduler(client, tmp_path):
    words = ["match", "digits", "digits", "--split-halves", "--limit", "60", "--features", "pixels"]
    words += ["--json", "--no-figures", "--out"]
    here = CliRunner().invoke(app, [*words, str(tmp_path / "here")])
    there = CliRunner().invoke(app, [*words, str(tmp_path / "there"), "--scheduler", client.scheduler.address])
    assert (here.exit_code, there.exit_code) == (0, 0), here.output + there.output
    one, other = (json.loads(found.stdout) for found in (here, there))
    assert other["distance"] == pytest.approx(one["distance"], rel=1e-5)
    cluster = json.loads((tmp_path / "there" / "run.json").read_text())["cluster"]
    assert len(cluster["workers"]) == 2
    assert cluster["rounds"]["pass"] >= other["iterations"] > 0
    assert not (tmp_path / "there.solve.npz").exists()


SCHEDULER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    options = {"processes": False, "protocol": "tcp", "dashboard_address": None}
    with LocalCluster(n_workers=1, threads_per_worker=1, **options) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def mortal():
    """A process with a scheduler and a worker, and the address of the scheduler."""
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen([sys.executable, "-c", SCHEDULER], **options) as process:
        yield process, process.stdout.readline().strip()
        process.kill()


def test_after_a_dead_scheduler_the_solve_goes_on_with_another(client, mortal, tmp_path, monkeypatch):
    monkeypatch.setattr("bispectral_ot.transport.iteration.EVERY", 0.0)
    source, target = bot.split_halves(bot.load("digits"), per_class=10)
    solver = Sinkhorn(reg=0.005, tol=1e-7)
    options = {"features": "pixels", "marginals": "balanced", "solver": solver, "state": tmp_path / "solve.npz"}
    process, address = mortal
    passes = 0

    def kill_later(stage, done, total):
        nonlocal passes
        passes += stage == "transport"
        if passes == 12:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()

    with (
        distributed.Client(address, timeout=2, set_as_default=False) as doomed,
        pytest.raises(bot.ClusterError, match="connection to the scheduler was lost"),
    ):
        bot.match(source, target, client=doomed, progress=kill_later, **options)
    assert (tmp_path / "solve.npz").exists()
    expected = bot.match(source, target, **options | {"state": None})
    found = bot.match(source, target, client=client, **options)
    assert found.distance == pytest.approx(expected.distance, rel=1e-6)
    assert found.coupling.iterations < expected.coupling.iterations
    assert found.coupling.resumed_at > 0
    assert not (tmp_path / "solve.npz").exists()
