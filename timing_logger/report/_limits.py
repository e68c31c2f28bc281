"""How much of a run of many ranks a report shows: the numbers that decide, each with its reason,
and the rows that they leave.

What they leave out is said wherever it is left out, with the way to see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.arrays import Record

_RowT = TypeVar("_RowT", bound="Record")
_AT_EACH_END = 2

MOST_LINES = 20
"""The most ranks that a table names: a terminal shows so many lines at once, with what is said below them.

Who wants more of them mostly wants all, which ``--all`` and ``--json`` have.
"""

MOST_SETS = 8
"""The most operations of which a table shows several ranks each: five of each make two screens."""

MOST_BARS = 16
"""The most ranks that have a bar of their time each; more are no longer told apart at a glance."""

FEW_PROCESSES = 64
"""A page shows each of so many processes everywhere, and as many by name where there are more.

That is what a heatmap can label and an eye can look through; with more the page would grow with the run.
"""

HOST_ROWS = 32
"""The most rows of hosts in a heatmap: half as many as of ranks, as they are there for comparison."""

BANDS = {1.0: "longest", 0.9: "90th percentile", 0.5: "median", 0.1: "10th percentile", 0.0: "shortest"}
"""The rows of a heatmap for ranks without a name: what is usual, how far it spreads, and both ends.

The ends are there so that nothing can hide: whatever one rank does in one cell shows in them.
"""

CELLS_OF_MANY = 30_000
"""The most cells of one view of a heatmap of many ranks: seven views of 4 bytes, in base64, are 1.1 MB.

That is a third of the 3 MB that a page of many ranks may have, to go by mail and to open at once.
"""

SPANS_OF_MANY = 100_000
"""The most spans of a timeline of many ranks: at about 10 bytes each, another third of these 3 MB."""

REFERENCES = 16
"""The ranks that a timeline of many shows beside the slow ones, from the slowest to the quickest.

So many lanes, and those of a slow host, are seen together without scrolling far.
"""

HOST_MATES = 16
"""The ranks of the slow ranks' hosts that a timeline of many shows: a host mostly has 8 or 16."""

POINTS_OF_MANY = 400
"""The most points of the chart of bandwidths: more lie on one another, and each takes 300 bytes."""


def ends_and_middle(rows: Sequence[_RowT], name: str) -> list[_RowT]:
    """Return all rows if they are few; else those with the extreme values of ``name``, and the middle one.

    In the latter case the smallest comes first; a NaN counts as more than any number.
    """
    if len(rows) <= MOST_LINES:
        return list(rows)
    ordered = sorted(rows, key=lambda row: (row[name] != row[name], row[name]))
    middle = (len(rows) - 1) // 2
    return [*ordered[:_AT_EACH_END], ordered[middle], *ordered[-_AT_EACH_END:]]


def at_distances(ranks: Sequence[int], most: int) -> list[int]:
    """Return at most so many of these, at equal distances, with the first and the last."""
    if len(ranks) <= most:
        return list(ranks)
    return [ranks[at] for at in np.linspace(0, len(ranks) - 1, most).round().astype(int)]


def worst_of(frame: pd.DataFrame, figure: pd.Series[float], everything: bool) -> pd.DataFrame:
    """Return the rows with the greatest figures, the greatest first; all as they are, if they are few.

    A figure that is not known comes first: it may be the worst.
    """
    if everything or len(frame) <= MOST_LINES:
        return frame
    order = figure.reset_index(drop=True).sort_values(ascending=False, na_position="first", kind="stable")
    found: pd.DataFrame = frame.iloc[order.index[:MOST_LINES]]
    return found


def on_left_out(n_rows: int, n_shown: int, rows: str, which: str) -> Iterable[str]:
    """Yield the sentence that says how many rows are left out, which are shown, and how to see all.

    Args:
        n_rows: the number of all rows.
        n_shown: of those that are shown.
        rows: what the rows are, as ``ranks``.
        which: what is said of those that are shown, as ``that cost most``.
    """
    if n_shown < n_rows:
        yield (
            f"Of {n_rows:,} {rows} these are the {n_shown} {which}; {n_rows - n_shown:,} are left out. "
            "--all shows all."
        )
