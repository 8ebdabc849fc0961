"""The program as a user runs it, and small sets of images on disk."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from bispectral_ot import Dataset, load, split_halves
from bispectral_ot.cli.console import STAGE
from bispectral_ot.cli.main import app

CLASSES = ("zéro", "eins, zwei", '"deux"')


class Outcome:
    """What a run of the program left behind."""

    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code, self.stdout = code, stdout
        lines = [line for line in stderr.splitlines(keepends=True) if not line.startswith("compiling kernels")]
        self.stderr = "".join(line for line in lines if not line.startswith(STAGE))
        self.stages = [line.removeprefix(STAGE).strip() for line in lines if line.startswith(STAGE)]

    @property
    def complaint(self) -> str:
        """The single line of an error."""
        assert "Traceback" not in self.stderr
        assert self.stderr.count("\n") == 1, self.stderr
        return self.stderr.strip()

    @property
    def json(self) -> Any:
        """Standard output, which must be JSON and nothing else."""
        return json.loads(self.stdout)


@pytest.fixture(scope="session")
def program() -> Callable[..., Outcome]:
    """Call the program with words, without starting a process; figures are drawn only for tests of figures."""

    def call(*words: str | Path, figures: bool = False) -> Outcome:
        draws = words and words[0] in ("match", "compare", "upright", "demo") and "--help" not in words
        words = (*words, "--no-figures") if draws and not figures else words
        result = CliRunner().invoke(app, [str(word) for word in words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture(scope="session")
def halves() -> tuple[Dataset, Dataset]:
    """Two halves of the digits 0, 1 and 2, four of each class in each half."""
    digits = load("digits", resize=12)
    first, second = split_halves(digits.select(np.asarray(digits.labels) < 3), per_class=4)
    return first, second


@pytest.fixture(scope="session")
def sets(halves: tuple[Dataset, Dataset], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a.npz and b.npz (with labels) and plain.npz (b without labels)."""
    folder = tmp_path_factory.mktemp("sets")
    for name, half in zip("ab", halves, strict=True):
        np.savez(folder / f"{name}.npz", images=half.images, labels=half.labels, classes=np.array(CLASSES))
    np.savez(folder / "plain.npz", images=halves[1].images)
    return folder
