"""The figure of exposed and hidden communication, by rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis import overlap
from timing_logger.report._limits import MOST_BARS
from timing_logger.report._wording import percent, process_name, seconds
from timing_logger.report.figures._colours import COMMUNICATION, OTHERS, mixed, solid
from timing_logger.report.figures._drawing import HOVER, empty, graph_objects, lanes
from timing_logger.report.figures._tables import in_pandas
from timing_logger.report.html._charts import overlap_totals

if TYPE_CHECKING:
    import plotly.graph_objects as go

_PARTS = {
    "exposed_ms": ("exposed", solid(COMMUNICATION)),
    "hidden_ms": ("hidden behind own work", solid(mixed(COMMUNICATION, 0.35))),
    "unknown_ms": ("not known which", solid(OTHERS)),
}
"""The parts of a rank's communication, with their names and how they are drawn."""


def overlap_figure(timings: IntoDataFrameT) -> go.Figure:
    """Draw how much of each rank's communication was exposed, and how much was hidden behind its own work.

    The bars are sums over all steps of what :func:`timing_logger.analysis.overlap` tells of each. Of more
    than 16 ranks those with most exposed communication are drawn.

    Args:
        timings: as ``read_timings`` returns.

    Returns:
        The figure; one that says so if no communication has instants.

    Raises:
        ConfigurationError: plotly is not installed.
        TableError: the timings have no column ``rank``.
    """
    totals = overlap_totals(in_pandas(overlap(timings)))
    totals = totals[totals["communication_ms"] > 0]
    if totals.empty:
        return empty("Exposed and hidden communication", "no communication with instants")
    totals = totals.assign(unknown_ms=totals["communication_ms"].where(totals["exposed_ms"].isna(), 0.0))
    drawn = _most_exposed(totals)
    labels = [
        process_name(*one) for one in zip(drawn["rank"].tolist(), drawn["incarnation"].tolist(), strict=True)
    ]
    notes = list(_on_ranks_left_out(len(totals), len(drawn)))
    return lanes(
        _traces(drawn, labels), _title(totals), notes, "communication, in s", labels, barmode="stack"
    )


def _title(totals: pd.DataFrame) -> str:
    """Return how much of all communication was hidden, as far as that is known."""
    known = totals.dropna(subset="exposed_ms")
    if known.empty:
        return "Communication of each rank: it is not known how much of it was hidden"
    shares = np.sort((known["hidden_ms"] / known["communication_ms"]).to_numpy())
    least, most = percent(shares[0]), percent(shares[-1])
    spread = least if least == most else f"{least} to {most}"
    return f"Exposed and hidden communication: own work hides {spread} of each rank's"


def _most_exposed(totals: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the ranks with most exposed communication, ascending; all of a few."""
    order = totals["exposed_ms"].sort_values(ascending=False, na_position="first", kind="stable").index
    found: pd.DataFrame = totals.loc[sorted(order[:MOST_BARS])]
    return found


def _traces(totals: pd.DataFrame, labels: list[str]) -> Iterator[Any]:
    for part, (name, marker) in _PARTS.items():
        ms = totals[part].fillna(0.0)
        if ms.any() or part != "unknown_ms":
            yield graph_objects().Bar(
                orientation="h",
                name=name,
                y=labels,
                x=(ms / 1e3).tolist(),
                marker=marker,
                hovertext=[
                    f"{label}: {seconds(its)} {name}, {percent(its / of)} of its communication"
                    for label, its, of in zip(labels, ms, totals["communication_ms"], strict=True)
                ],
                hovertemplate=HOVER,
            )


def _on_ranks_left_out(n_ranks: int, n_drawn: int) -> Iterator[str]:
    if n_drawn < n_ranks:
        yield (
            f"Of {n_ranks:,} ranks these are the {n_drawn} with most exposed communication; "
            f"{n_ranks - n_drawn:,} are left out."
        )
