"""The figure of bus bandwidth against message size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis import bandwidth
from timing_logger.report._limits import POINTS_OF_MANY
from timing_logger.report._wording import count, size
from timing_logger.report.figures._colours import COMMUNICATION, COPIES, INK, OTHERS, WAITING, WORK
from timing_logger.report.figures._drawing import HOVER, empty, figure, graph_objects, text
from timing_logger.report.figures._tables import in_pandas
from timing_logger.report.html._tables import significant

if TYPE_CHECKING:
    import plotly.graph_objects as go

_COLOURS = COMMUNICATION, WAITING, COPIES, WORK, INK, OTHERS
_SYMBOLS = "circle", "square", "diamond", "triangle-up", "triangle-down", "cross"

_TIMES = {
    "transfer_busbw_gb_per_s": "transfer time, without waiting",
    "busbw_gb_per_s": "time spent, waiting included",
}
"""The two bandwidths of an operation, by the time that they are of."""


def bandwidth_figure(timings: IntoDataFrameT) -> go.Figure:
    """Draw the bus bandwidth of each operation, group and class of sizes against the size of its messages.

    Filled marks are by the transfer time, hollow ones by the time that ranks spent, which includes waiting
    for the last of them. The line joins the fastest at each class of sizes. Both axes are logarithmic. The
    bandwidths are those of :func:`timing_logger.analysis.bandwidth`. Of more than 400 marks the slowest and
    the fastest 200 are drawn.

    Args:
        timings: as ``read_timings`` returns.

    Returns:
        The figure; one that says so if no operation has both bytes and a bandwidth.

    Raises:
        ConfigurationError: plotly is not installed.
        TableError: the timings have no column ``rank``.
    """
    speeds = _speeds(in_pandas(bandwidth(timings)))
    if speeds.empty:
        return empty("Bus bandwidth by message size", "no operation with both bytes and a bandwidth")
    drawn = _slowest_and_fastest(speeds)
    notes = [
        "Filled: by transfer time. Hollow: by the time spent, waiting included.",
        *_on_points_left_out(len(speeds), len(drawn)),
    ]
    return figure(
        [*_traces(drawn), _ceiling(drawn)], _title(speeds), notes, "message size, in bytes",
        "bus bandwidth, in GB/s", height=520,
        xaxis={"type": "log", "tickformat": "~s", "ticksuffix": "B", "dtick": 1},
        yaxis={"type": "log", "tickformat": "~g", "dtick": 1},
    )  # fmt: skip


def _speeds(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each bandwidth that is known: ``speed`` in GB/s, and the time that it is ``by``."""
    table = table.assign(
        message_size_bytes=table["message_size_bytes"].astype(float),
        **{name: table[name].astype(float) for name in _TIMES},
    )
    each = [table.assign(speed=table[name], by=name) for name in _TIMES]
    both = pd.concat(each, ignore_index=True)
    found: pd.DataFrame = both[(both["speed"] > 0) & (both["message_size_bytes"] > 0)]
    return found


def _title(speeds: pd.DataFrame) -> str:
    """Return which operation is the fastest, by transfer time where that is known."""
    of_transfers = speeds[speeds["by"] == "transfer_busbw_gb_per_s"]
    its = speeds if of_transfers.empty else of_transfers
    best = its.iloc[int(its["speed"].to_numpy().argmax())]
    return (
        f"Bus bandwidth by message size: at most {significant(best['speed'])} GB/s, "
        f"{best['operation']} of {size(best['message_size_bytes'])}"
    )


def _traces(speeds: pd.DataFrame) -> Iterator[Any]:
    """Yield the marks of each operation, by transfer time and by the time spent."""
    for number, (operation, of_operation) in enumerate(
        speeds.groupby("operation", sort=False, observed=True)
    ):
        for by, its in of_operation.groupby("by", sort=False):
            symbol = _SYMBOLS[number % len(_SYMBOLS)]
            hollow = "" if by == "transfer_busbw_gb_per_s" else "-open"
            yield graph_objects().Scatter(
                name=f"{text(operation)}, {'waiting included' if hollow else 'transfer'}",
                x=its["message_size_bytes"].tolist(),
                y=its["speed"].tolist(),
                mode="markers",
                marker={"symbol": symbol + hollow, "size": 9, "color": _COLOURS[number % len(_COLOURS)]},
                hovertext=[_says(row) for row in its.to_dict("records")],
                hovertemplate=HOVER,
            )


def _says(row: dict[Any, Any]) -> str:
    group = text(row["group"]) or "no group"
    return (
        f"{text(row['operation'])} of {size(row['message_size_bytes'])} in {group}:<br>"
        f"{significant(row['speed'])} GB/s by {_TIMES[row['by']]}, {count(row['count'], 'row')}"
    )


def _ceiling(speeds: pd.DataFrame) -> Any:
    """Return the line through the fastest of each class of sizes, of any operation and group."""
    best = speeds.loc[speeds.groupby("size_class_bytes")["speed"].idxmax()].sort_values("message_size_bytes")
    return graph_objects().Scatter(
        name="the fastest at each size",
        x=best["message_size_bytes"].tolist(),
        y=best["speed"].tolist(),
        mode="lines",
        line={"color": OTHERS, "dash": "dot", "width": 1.5},
        hoverinfo="skip",
    )


def _slowest_and_fastest(speeds: pd.DataFrame) -> pd.DataFrame:
    if len(speeds) <= POINTS_OF_MANY:
        return speeds
    order, half = speeds["speed"].argsort(kind="stable").to_numpy(), POINTS_OF_MANY // 2
    found: pd.DataFrame = speeds.iloc[sorted({*order[:half].tolist(), *order[-half:].tolist()})]
    return found


def _on_points_left_out(n_points: int, n_drawn: int) -> Iterator[str]:
    if n_drawn < n_points:
        yield (
            f"Of {n_points:,} marks these are the {n_drawn // 2} slowest and as many of the fastest; "
            f"{n_points - n_drawn:,} between them are left out."
        )
