"""Select rows by rank and by a range of iterations."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pandas as pd

from timing_logger.reading.content import SharedFacts

SELECTED = "selected_ranks"
"""The key under which a file's description lists the ranks that were asked for, if not all were."""


def select(
    timings: pd.DataFrame, *, ranks: Collection[int] | None = None, iterations: slice | None = None
) -> pd.DataFrame:
    """Return the rows of ``ranks`` in ``iterations``, with the attributes of the files of those ranks.

    Args:
        timings: a table that ``read_timings`` returned.
        ranks: the ranks; None for all.
        iterations: the iterations from ``start`` to before ``stop``, in every epoch; rows outside of any
            iteration are left out then. None for all rows.
    """
    chosen: pd.DataFrame = timings
    if ranks is not None:
        chosen = chosen[chosen["rank"].isin(list(ranks))]
    if iterations is not None:
        start, stop = iterations.start, iterations.stop
        chosen = chosen[chosen["iteration"].notna()]
        if start is not None:
            chosen = chosen[chosen["iteration"] >= start]
        if stop is not None:
            chosen = chosen[chosen["iteration"] < stop]
    chosen = chosen.reset_index(drop=True)
    chosen.attrs = dict(timings.attrs)
    if ranks is not None and "files" in timings.attrs:
        chosen.attrs["files"] = SharedFacts(
            {**file, SELECTED: sorted(ranks)} for file in timings.attrs["files"] if file["rank"] in ranks
        )
    return chosen


def in_ranges(numbers: Iterable[int]) -> str:
    """Format numbers as ranges, as the command line takes them: ``{0, 1, 2, 5}`` -> ``0-2,5``."""
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in successive(numbers))


def successive(numbers: Iterable[int]) -> list[list[int]]:
    """Return numbers in ascending order, successive ones in one list."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def as_given(iterations: slice) -> str:
    """Format a range of iterations as the command line takes it: ``slice(100, None)`` -> ``100:``."""
    return ":".join("" if end is None else str(end) for end in (iterations.start, iterations.stop))
