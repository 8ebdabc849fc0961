"""Time and memory that the stages of a match take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bispectral_ot.memory import peak_memory


@dataclass(frozen=True)
class Stages:
    """Seconds of each stage, and peak memory of the process by its end, in bytes."""

    seconds: dict[str, float] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def measured(self, stage: str) -> Iterator[None]:
        """Measure the block as one stage."""
        start = time.perf_counter()
        yield
        self.seconds[stage] = time.perf_counter() - start
        self.memory[stage] = peak_memory()
