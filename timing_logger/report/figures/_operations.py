"""The figure of operations: how long each of them took in all, on every rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis import summarize
from timing_logger.reading.named_ranks import capital
from timing_logger.report._limits import MOST_BARS
from timing_logger.report._wording import process_name
from timing_logger.report.figures._colours import INK, OF_ROWS
from timing_logger.report.figures._drawing import HOVER, empty, figure, graph_objects, text
from timing_logger.report.figures._tables import in_pandas
from timing_logger.report.html._charts import MAX_OPERATIONS
from timing_logger.report.html._timeline import kind_of

if TYPE_CHECKING:
    import plotly.graph_objects as go

_TITLE = "Time by operation and rank"

_MOST_NUMBERED = 8
"""The most bars of an operation that have the number of their rank above them: a narrower bar has no room."""

_COLOURS = {
    "own work": "green",
    "others": "grey",
    "communication": "blue",
    "copies": "purple",
    "waiting": "orange",
}


def operations_figure(timings: IntoDataFrameT) -> go.Figure:
    """Draw how long each operation took in all, with a bar for each rank, from left to right.

    The times are ``total_ms`` of :func:`timing_logger.analysis.summarize`, the operation with most time
    first. Operations that overlap each other are counted each: the bars of a rank may add up to more than its
    wall time. Of more than 16 ranks those are drawn that are farthest above the median of an operation, and a
    line marks the median of all.

    Args:
        timings: as ``read_timings`` returns.

    Returns:
        The figure; one that says so if no row has a duration.

    Raises:
        ConfigurationError: plotly is not installed.
        TableError: the timings have no column ``rank``.
    """
    totals = in_pandas(summarize(timings))
    totals = totals[totals["total_ms"] > 0].assign(operation=totals["operation"].astype(str))
    if totals.empty:
        return empty(_TITLE, "no operation with a duration")
    names = list(dict.fromkeys(totals["operation"]))
    shown = totals[totals["operation"].isin(names[:MAX_OPERATIONS])]
    its = _farthest_above(shown)
    notes = [
        f"{_on_most(totals, names[0])} Ranks from left to right. {_on_colours(names)}",
        *_on_left_out(shown, its, len(names)),
    ]
    return figure(
        [*_traces(its), *_medians(shown, its)], f"{_TITLE}: most in {names[0]}", notes, "operation",
        "total time, in s", barmode="group", showlegend=False, uniformtext={"mode": "hide", "minsize": 8},
    )  # fmt: skip


def _on_most(totals: pd.DataFrame, most: str) -> str:
    """Return how far ranks are apart in the operation that takes most time."""
    its = totals.loc[totals["operation"] == most, ["rank", "total_ms"]].sort_values("total_ms", kind="stable")
    (least_rank, least_ms), (most_rank, most_ms) = its.iloc[0], its.iloc[-1]
    longest = f"{most_ms / 1e3:.2f} s on rank {most_rank:.0f}"
    shortest = f"{least_ms / 1e3:.2f} s on rank {least_rank:.0f} to " if len(its) > 1 else ""
    return f"{most} takes {shortest}{longest}."


def _farthest_above(totals: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of those processes that are farthest above the median of an operation; all of a few."""
    process = ["rank", "incarnation"]
    usual_ms = totals.groupby("operation")["total_ms"].transform("median")
    above_ms = (totals["total_ms"] - usual_ms).groupby([totals[name] for name in process]).max()
    chosen = above_ms.sort_values(ascending=False, kind="stable").index[:MOST_BARS]
    found: pd.DataFrame = totals[pd.MultiIndex.from_frame(totals[process]).isin(chosen)]
    return found


def _traces(totals: pd.DataFrame) -> Iterator[Any]:
    """Yield the bars of each process, all of an operation in the colour of its kind."""
    of_processes = totals.groupby(["rank", "incarnation"], sort=True)
    n_ranks = of_processes.ngroups
    for _, its in of_processes:
        rank, run = its["rank"].iloc[0], its["incarnation"].iloc[0]
        name = process_name(rank, run)
        yield graph_objects().Bar(
            name=name,
            x=[text(one) for one in its["operation"]],
            y=(its["total_ms"] / 1e3).tolist(),
            marker={"color": [OF_ROWS[kind_of(one)] for one in its["operation"]]},
            text=[str(rank)] * len(its) if n_ranks <= _MOST_NUMBERED else None,
            textposition="outside",
            textangle=0,
            hovertext=[_says(name, row) for row in its.to_dict("records")],
            hovertemplate=HOVER,
        )


def _says(name: str, row: dict[Any, Any]) -> str:
    return (
        f"{name}: {text(row['operation'])} {row['total_ms'] / 1e3:.3f} s in {row['count']:,} rows, "
        f"median {row['p50_ms']:.3f} ms"
    )


def _medians(totals: pd.DataFrame, drawn: pd.DataFrame) -> Iterator[Any]:
    """Yield the marks of the medians of all ranks, where only those far from them are drawn."""
    if len(drawn) == len(totals):
        return
    usual_ms = totals.groupby("operation", sort=False)["total_ms"].median()
    yield graph_objects().Scatter(
        name="median of all ranks",
        x=[text(one) for one in usual_ms.index],
        y=(usual_ms / 1e3).tolist(),
        mode="markers",
        marker={"symbol": "line-ew", "size": 40, "line": {"width": 2, "color": INK}},
        hovertext=[f"median of all ranks: {text(one)} {ms / 1e3:.3f} s" for one, ms in usual_ms.items()],
        hovertemplate=HOVER,
    )


def _on_colours(operations: Sequence[str]) -> str:
    """Return what the colours mean, of the kinds that occur."""
    of = {kind_of(name) for name in operations}
    return f"{capital(', '.join(f'{kind} {_COLOURS[kind]}' for kind in OF_ROWS if kind in of))}."


def _on_left_out(totals: pd.DataFrame, drawn: pd.DataFrame, n_operations: int) -> Iterator[str]:
    n_ranks, n_drawn = (len(table[["rank", "incarnation"]].drop_duplicates()) for table in (totals, drawn))
    if n_drawn < n_ranks:
        yield (
            f"Of {n_ranks:,} ranks these are the {n_drawn} that are farthest above the median of an "
            f"operation; {n_ranks - n_drawn:,} are left out. A line marks the median of all."
        )
    if n_operations > MAX_OPERATIONS:
        yield f"{n_operations - MAX_OPERATIONS} operations with less time are left out."
