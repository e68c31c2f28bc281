"""A gain that was foretold, beside the gain that there was; and tables of these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

MOST_MEDIAN, MOST_90 = 0.02, 0.05
"""To reach: how wrong a gain may be, as a fraction of the run."""


class Prediction(NamedTuple):
    """A gain that was foretold, and the one that there was.

    Attributes:
        fault: what was wrong.
        fixes: what was repaired.
        run_ms: how long the run took.
        foretold_ms, true_ms: by how much it would have been shorter, and by how much one without the fault
            was.
        is_within: whether that lies in the interval that was stated.
    """

    fault: str
    fixes: tuple[str, ...]
    run_ms: float
    foretold_ms: float
    true_ms: float
    is_within: bool

    @property
    def off(self) -> float:
        """By how much the gain is wrong, as a fraction of the run."""
        return (self.foretold_ms - self.true_ms) / self.run_ms


def lines(found: Sequence[Prediction]) -> Iterator[str]:
    """Yield a table, with a line for each fault, the worst first; and for all of them."""
    by_fault: dict[str, list[Prediction]] = {}
    for one in found:
        by_fault.setdefault(one.fault, []).append(one)
    yield "| fault | repaired | runs | gain, % of the run | off by: median | 90% | within the interval |"
    yield "|---|---|---|---|---|---|---|"
    for fault, its in sorted(by_fault.items(), key=lambda of: -_quantile(of[1], 0.5)):
        yield _line(fault, ", ".join(sorted({_shown(one) for one in its})), its)
    yield _line("all", "", found)
    yield ""
    for name, most, share in (("median", MOST_MEDIAN, 0.5), ("90th percentile", MOST_90, 0.9)):
        reached = "met" if _quantile(found, share) <= most else "**missed**"
        yield f"- to reach, {most:.0%} of the run at the {name}: {reached}"


def _line(fault: str, repaired: str, its: Sequence[Prediction]) -> str:
    gain = np.median([one.true_ms / one.run_ms for one in its])
    within = np.mean([one.is_within for one in its])
    return (
        f"| {fault} | {repaired} | {len(its)} | {gain:.1%} "
        f"| {_quantile(its, 0.5):.2%} | {_quantile(its, 0.9):.2%} | {within:.0%} |"
    )


def _shown(one: Prediction) -> str:
    kinds = [fix.partition("=")[0] for fix in one.fixes]
    few = dict.fromkeys(
        kind if kind in ("rank", "host") else fix for kind, fix in zip(kinds, one.fixes, strict=True)
    )
    return " ".join(f"`{fix}`" for fix in few)


def _quantile(its: Sequence[Prediction], share: float) -> float:
    return float(np.quantile([abs(one.off) for one in its], share))
