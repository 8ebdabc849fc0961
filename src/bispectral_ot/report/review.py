"""What is doubtful about a match: shares of classes, elements without counterpart, labels that could be others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bispectral_ot.matching import ClassShares, Match, Unmatched
from bispectral_ot.report.tables import Row, Side

# Share of the other set that may be as far from each other; of elements with a counterpart, so many are found, too.
UNMATCHED = 0.05


@dataclass(frozen=True, eq=False)
class Review:
    """Everything that a reader of a match should look at.

    Attributes
    ----------
    shares : of the classes, where they were estimated
    true_shares : (classes,) of the source by its own labels; NaN where it has none
    sources, targets : elements without counterpart; None where shares were said to be the same, or images are not known
    doubtful : (k,) sources with a doubtful label, the least certain first; None without labels
    """

    shares: ClassShares | None
    true_shares: NDArray[np.float64] | None
    sources: Unmatched | None
    targets: Unmatched | None
    doubtful: NDArray[np.int64] | None

    @classmethod
    def of(cls, match: Match, *, seed: int = 0) -> Review:
        """Look a match over; ``seed`` is that of the bootstrap of shares."""
        shares = None if match.share_estimate is None else match.class_shares(seed=seed)
        known = match.feature_map is not None and not match.images_elsewhere
        looked = known and match.settings.get("marginals", "balanced") != "balanced"
        return cls(
            shares=shares,
            true_shares=None if shares is None else _true_shares(match, shares),
            sources=match.unmatched(UNMATCHED) if looked else None,
            targets=match.unmatched(UNMATCHED, side="target") if looked else None,
            doubtful=None if match.target_labels is None else match.doubtful(),
        )

    def facts(self) -> dict[str, Any]:
        """For ``results.json``: shares of each class, and counts of what is doubtful."""
        found: dict[str, Any] = {}
        if self.shares is not None:
            columns = self.shares._asdict() | {"true": self.true_shares}
            names = columns.pop("classes")
            found["shares"] = {
                str(name): dict(zip(columns, map(float, row), strict=True))
                for name, row in zip(names, np.transpose(list(columns.values())), strict=True)
            }
        if self.sources is not None and self.targets is not None:
            counts = {"sources": len(self.sources.indices), "targets": len(self.targets.indices)}
            found["unmatched"] = {**counts, "share": UNMATCHED}
        if self.doubtful is not None:
            found["doubtful"] = len(self.doubtful)
        return found


def unmatched_rows(review: Review, source: Side, target: Side) -> tuple[list[str], Iterator[Row]]:
    """Header and rows of ``unmatched.csv``: elements of both sides without counterpart, the least matched first."""
    sides = [("source", source, review.sources), ("target", target, review.targets)]
    with_files = any(side.dataset.files for _, side, _ in sides)

    def rows() -> Iterator[Row]:
        for name, side, found in sides:
            for i in found.indices if found is not None else ():
                file = [side.dataset.files[i] if side.dataset.files else ""] if with_files else []
                assert found is not None
                yield [name, side.positions[i], *file, f"{found.scores[i]:.4g}"]

    return ["side", "index", *["file"] * with_files, "score"], rows()


def _true_shares(match: Match, shares: ClassShares) -> NDArray[np.float64]:
    if match.source_labels is None:
        return np.full(len(shares.classes), np.nan)
    true: NDArray[np.float64] = np.equal.outer(shares.classes, match.source_labels).mean(axis=1)
    return true
