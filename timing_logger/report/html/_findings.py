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


class Findings(NamedTuple):
    """Each as the analysis of that name returns it."""

    timings: pd.DataFrame
    summary: Summary
    verdict: Verdict
    windows: pd.DataFrame
    bandwidth: pd.DataFrame
    overlap: pd.DataFrame
    waits: pd.DataFrame
    collectives: pd.DataFrame
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
            waits=waits(timings),
            collectives=match_collectives(timings),
            compression=compression(timings),
        )
