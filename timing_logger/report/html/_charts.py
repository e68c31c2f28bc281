"""Bar charts: parts of operations, exposed and hidden communication, compression."""

from __future__ import annotations

import math
from typing import NamedTuple

import pandas as pd

from timing_logger.analysis.rows.arrays import Record
from timing_logger.analysis.rows.operations import BACKEND, base_operation
from timing_logger.report._account_figures import operations_and_not_timed
from timing_logger.report._diagnostics import on_overlap
from timing_logger.report._limits import FEW_PROCESSES, at_distances
from timing_logger.report.html._crowd import Crowd
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._tables import (
    PageColumn,
    Table,
    byte_size,
    decimals,
    integer,
    share,
    table_of,
    text,
)
from timing_logger.schema.record import escape_text
from timing_logger.words.units import percent, seconds

MAX_OPERATIONS = 24
"""The most operations that have a chart; the table has all of them."""


_VISIBLE = 0.0005
"""The least hidden fraction of a rank's communication that a percentage with one decimal shows."""


class Bar(NamedTuple):
    """One bar: its label, its value as text, and lengths as percentages of the longest bar (0 to 100)."""

    label: str
    value: str
    lengths: tuple[float, ...]


class OperationChart(NamedTuple):
    """The chart of one operation: a bar for each rank, and the ranks with the least and the most in words."""

    operation: str
    range: str
    bars: list[Bar]


class Chart(NamedTuple):
    """A bar chart and the table of its data."""

    bars: list[Bar]
    table: Table


class OperationCharts(NamedTuple):
    """A chart for each operation, and the table of their data.

    ``has_backend`` is true if there are ``BACKEND`` rows, which the page must then explain. ``bars`` says
    which ranks the bars are of.
    """

    operations: list[OperationChart]
    table: Table
    has_backend: bool
    bars: str


def operation_charts(findings: Findings) -> OperationCharts:
    """Return charts of each rank's shares of its wall time; the bars of all operations have one scale."""
    table = operations_and_not_timed(findings.summary.operations, findings.summary.account)
    most, crowd = table["wall_share"].max(), findings.crowd
    charts = [
        _operation_chart(str(operation), rows, most, crowd.is_many)
        for operation, rows in list(table.groupby("operation", sort=False))[:MAX_OPERATIONS]
        if rows["wall_share"].notna().any()
    ]
    columns = {
        "operation": PageColumn("operation", escape_text),
        "rank": PageColumn("rank", integer),
        "incarnation": PageColumn("run", integer),
        "count": PageColumn("count", integer),
        "bytes": PageColumn("bytes", byte_size),
        "p50_ms": PageColumn("p50 ms", decimals(3)),
        "p99_ms": PageColumn("p99 ms", decimals(3)),
        "max_ms": PageColumn("max ms", decimals(3)),
        "total_ms": PageColumn("total ms", decimals(1)),
        "wall_share": PageColumn("of wall", share),
    }
    has_backend = any(base_operation(chart.operation) == BACKEND for chart in charts)
    which = crowd.shown("that are farthest above the median of their operation, by total", "summary --all")
    shown = _farthest_above(table) if crowd.is_many else table
    drawn = table_of(shown, "Operations by rank", columns, which)
    return OperationCharts(charts, drawn, has_backend, _on_bars(crowd))


def _on_bars(crowd: Crowd) -> str:
    if not crowd.is_many:
        return "ranks from left to right"
    return (
        f"of {crowd.n_processes:,} ranks {FEW_PROCESSES}, at equal distances in their order, from the one "
        "with least to the one with most"
    )


def _farthest_above(operations: pd.DataFrame) -> pd.DataFrame:
    """Return the rows by how far the total is above the median of the operation's, the farthest first."""
    usual_ms = operations.groupby("operation")["total_ms"].transform("median")
    found: pd.DataFrame = operations.iloc[(usual_ms - operations["total_ms"]).argsort(kind="stable")]
    return found


def _operation_chart(operation: str, rows: pd.DataFrame, most: float, is_many: bool) -> OperationChart:
    rows = rows.dropna(subset="wall_share").sort_values(["rank", "incarnation"])
    if is_many:
        rows = rows.sort_values("wall_share", kind="stable")
        rows = rows.iloc[at_distances(range(len(rows)), FEW_PROCESSES)]
    shares = rows["wall_share"].to_numpy()
    ranks = rows["rank"].tolist()
    bars = [
        Bar(f"rank {rank}", percent(part), (_length(part, most),))
        for rank, part in zip(ranks, shares, strict=True)
    ]
    ends = shares.argmin(), shares.argmax()
    least, longest = (f"{bars[at].value} (rank\N{NO-BREAK SPACE}{ranks[at]})" for at in ends)
    alike = len({bars[at].value for at in ends}) == 1
    spread = f"{bars[0].value} on each rank" if alike else f"{least} to {longest}"
    return OperationChart(escape_text(operation), spread if len(bars) > 1 else bars[0].value, bars)


class OverlapChart(NamedTuple):
    """A chart of exposed and hidden communication, and sentences about what is not known, and why.

    ``brief`` is a sentence in place of the chart where nothing is hidden; else "". ``left_out`` says which
    ranks have no bar; "" if all have one.
    """

    bars: list[Bar]
    table: Table
    diagnostics: list[str]
    brief: str
    left_out: str


def overlap_chart(overlap: pd.DataFrame, crowd: Crowd) -> OverlapChart:
    """Return the chart of each rank's communication, summed over the steps: exposed, then hidden."""
    totals = overlap_totals(overlap)
    most = totals["communication_ms"].max()
    if crowd.is_many:
        totals = totals.sort_values("exposed_ms", ascending=False, na_position="first", kind="stable")
    which = crowd.shown("with most exposed communication", "overlap --all")
    bars = [
        Bar(f"rank {row['rank']:.0f}", _exposed_and_hidden(row), _shares(row, most))
        for row in totals[totals["communication_ms"] > 0].head(which.most).to_dict("records")
    ]
    columns = {
        "rank": PageColumn("rank", integer),
        "incarnation": PageColumn("run", integer),
        "step_ms": PageColumn("step ms", decimals(1)),
        "compute_ms": PageColumn("own work ms", decimals(1)),
        "communication_ms": PageColumn("communication ms", decimals(1)),
        "exposed_ms": PageColumn("exposed ms", decimals(1)),
        "hidden_ms": PageColumn("hidden ms", decimals(1)),
        "overlap": PageColumn("hidden", share),
        "waited_ms": PageColumn("WAIT ms", decimals(1)),
    }
    drawn = table_of(totals, "Sums over the steps of each rank", columns, which)
    left_out = drawn.note if crowd.is_many else ""
    return OverlapChart(bars, drawn, list(on_overlap(overlap)), _brief(totals), left_out)


def overlap_totals(overlap: pd.DataFrame) -> pd.DataFrame:
    """Return the sums of each process over the steps of what ``analysis.overlap`` returned."""
    figures = ["communication_ms", "exposed_ms", "hidden_ms", "compute_ms", "waited_ms", "step_ms"]
    grouped = overlap.groupby(["rank", "incarnation"], as_index=False)
    totals = grouped[figures].sum(min_count=1)
    totals["overlap"] = totals["hidden_ms"] / totals["communication_ms"].where(totals["communication_ms"] > 0)
    return totals


def _brief(totals: pd.DataFrame) -> str:
    communicates = totals[totals["communication_ms"] > 0]
    if communicates.empty:
        return "No communication has instants."
    exposed_ms, hidden_ms = communicates["exposed_ms"], communicates["hidden_ms"]
    if exposed_ms.isna().any() or (hidden_ms >= _VISIBLE * communicates["communication_ms"]).any():
        return ""
    least, most = (seconds(value) for value in (exposed_ms.min(), exposed_ms.max()))
    spread = least if least == most else f"{least} to {most}"
    return (
        f"All communication was exposed, {spread} on each rank: the ranks had no work of their own meanwhile."
    )


def _exposed_and_hidden(row: Record) -> str:
    if math.isnan(row["exposed_ms"]):
        return f"{seconds(row['communication_ms'])}, not known whether exposed or hidden"
    exposed, hidden = seconds(row["exposed_ms"]), seconds(row["hidden_ms"])
    return f"{exposed} exposed, {hidden} hidden ({percent(row['overlap'])})"


def _shares(row: Record, most: float) -> tuple[float, ...]:
    if math.isnan(row["exposed_ms"]):
        return (_length(row["communication_ms"], most),)
    return _length(row["exposed_ms"], most), _length(row["hidden_ms"], most)


def compression_chart(compression: pd.DataFrame) -> Chart:
    """Return the chart of each compressed layer's break-even, with 1 at half of the width.

    The template draws a line there.
    """
    pays = compression["pays"].map({True: "pays", False: "does not pay"}).fillna("not known").tolist()
    bars = [
        Bar(
            escape_text(row["layer_name"]) or "(no layer)",
            f"{row['break_even']:.2f}, {words}",
            (50 * min(row["break_even"], 2.0),),
        )
        for row, words in zip(compression.to_dict("records"), pays, strict=True)
        if not math.isnan(row["break_even"])
    ]
    columns = {
        "layer_name": PageColumn("layer", text),
        "phase": PageColumn("phase", text),
        "count": PageColumn("reductions", integer),
        "compress_ms": PageColumn("compress ms", decimals(3)),
        "transfer_ms": PageColumn("transfer ms", decimals(3)),
        "decompress_ms": PageColumn("decompress ms", decimals(3)),
        "achieved_ms": PageColumn("achieved ms", decimals(3)),
        "dense_estimate_ms": PageColumn("dense estimate ms", decimals(3)),
        "extrapolated_by": PageColumn("extrapolated by", decimals(1)),
        "break_even": PageColumn("break-even", decimals(2)),
        "dense_bytes": PageColumn("dense", byte_size),
        "sent_bytes": PageColumn("sent", byte_size),
        "saved_bytes": PageColumn("saved", byte_size),
    }
    return Chart(bars, table_of(compression, "Compressed layers", columns))


def _length(value: float, most: float) -> float:
    return round(100 * value / most, 2) if most > 0 else 0.0
