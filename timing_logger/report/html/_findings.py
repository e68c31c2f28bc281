"""What the analyses say of a run: asked once, drawn several times."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from timing_logger.analysis import (
    Summary,
    Verdict,
    bandwidth,
    compression,
    match_collectives,
    overlap,
    overview,
    stragglers_and_windows,
    waits,
)
from timing_logger.analysis._frames import opened

if TYPE_CHECKING:
    import pandas as pd


_OF_WAITS = ("rank", "incarnation", "epoch", "iteration", "clock_free_wait_ms", "clock_violation")


class Findings(NamedTuple):
    """Each as the analysis of that name returns it; of those with a row for each row, what is drawn.

    Attributes:
        waits: the columns ``_OF_WAITS``, as far as there are.
        flawed: the rows of ``match_collectives`` that are not ``complete``.
    """

    timings: pd.DataFrame
    summary: Summary
    verdict: Verdict
    windows: pd.DataFrame
    bandwidth: pd.DataFrame
    overlap: pd.DataFrame
    waits: pd.DataFrame
    flawed: pd.DataFrame
    compression: pd.DataFrame

    @classmethod
    def of(cls, timings: pd.DataFrame) -> Findings:
        attrs = timings.attrs
        timings = opened(timings).to_native()  # with every column, for all that follows
        timings.attrs = attrs
        verdict, slow = stragglers_and_windows(timings)
        return cls(
            timings=timings,
            summary=overview(timings),
            verdict=verdict,
            windows=slow,
            bandwidth=bandwidth(timings),
            overlap=overlap(timings),
            waits=_waits(timings),
            flawed=_flawed(timings),
            compression=compression(timings),
        )


def _waits(timings: pd.DataFrame) -> pd.DataFrame:
    found = waits(timings)
    drawn: pd.DataFrame = found[[name for name in _OF_WAITS if name in found]].copy()  # lets go of the others
    return drawn


def _flawed(timings: pd.DataFrame) -> pd.DataFrame:
    found = match_collectives(timings)
    flawed: pd.DataFrame = found[found["state"] != "complete"]
    return flawed
