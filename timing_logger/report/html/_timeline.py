"""Every row as a span, by rank and thread, for the canvas of timeline.js."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from timing_logger.analysis.operations import COPIES, base_operation, is_communication, is_own_work, is_wait
from timing_logger.record import HOST_CLOCK
from timing_logger.report.html._packing import packed

if TYPE_CHECKING:
    import pandas as pd

MAX_SPANS = 500_000
"""Of more rows the longest are drawn: the others are narrower than a pixel until far into the zoom."""

_MAX_TICK = 2**32 - 1

Array = npt.NDArray[Any]


class Timeline(NamedTuple):
    """What the template needs to know, and the data for timeline.js.

    Attributes:
        n_spans: how many are drawn.
        left_out: rows that are shorter than ``shortest_ms``, since there are too many.
        without_instants: rows that state no start or end.
        is_common: whether the ranks are on one time axis; else each begins at its own first row.
        kinds: which kinds of operations there are, in the order of the legend.
    """

    n_spans: int
    left_out: int
    shortest_ms: float
    without_instants: int
    is_common: bool
    kinds: list[str]
    data: dict[str, Any] | None


def timeline(timings: pd.DataFrame) -> Timeline:
    begin_s, duration_s, is_common = _placed(timings)
    placed = np.flatnonzero(~np.isnan(begin_s) & (duration_s >= 0))
    if not len(placed):
        return Timeline(0, 0, 0.0, len(timings), is_common, [], None)
    drawn, shortest_s = _longest(placed, duration_s)
    begin_s = begin_s - (begin_s[placed].min() if is_common else _first_of_process(timings, begin_s, placed))
    data = _data(timings.iloc[drawn].assign(begin_s=begin_s[drawn], duration_s=duration_s[drawn]))
    kinds = list(dict.fromkeys(kind for _, kind in sorted(data["operations"], key=_kind_order)))
    return Timeline(
        len(drawn),
        len(placed) - len(drawn),
        1e3 * shortest_s,
        len(timings) - len(placed),
        is_common,
        kinds,
        data,
    )


def _placed(timings: pd.DataFrame) -> tuple[Array, Array, bool]:
    """Begin and duration of each row in s; and whether the ranks are on one axis, or each on its own."""
    uncertainty = timings.get("clock_uncertainty_s")
    is_common = "start_s" in timings and uncertainty is not None and not uncertainty.isna().any()
    start, end = ("start_s", "end_s") if is_common else ("start_counter", "end_counter")
    begin_s, end_s = (timings[name].to_numpy(np.float64, na_value=np.nan) for name in (start, end))
    return begin_s, end_s - begin_s, is_common


def _first_of_process(timings: pd.DataFrame, begin_s: Array, placed: Array) -> Array:
    """For each row when the first of its process began."""
    process = timings.groupby(["rank", "incarnation"]).ngroup().to_numpy()
    first_s = np.full(int(process.max()) + 1, np.inf)
    np.minimum.at(first_s, process[placed], begin_s[placed])
    first_of_row: Array = first_s[process]
    return first_of_row


def _longest(placed: Array, duration_s: Array) -> tuple[Array, float]:
    """The rows to draw, and the duration of the shortest if there are too many for all; else 0."""
    if len(placed) <= MAX_SPANS:
        return placed, 0.0
    order = np.argsort(-duration_s[placed], kind="stable")[:MAX_SPANS]
    return placed[order], float(duration_s[placed[order[-1]]])


def _data(spans: pd.DataFrame) -> dict[str, Any]:
    spans = spans.assign(device=spans["clock"] != HOST_CLOCK)
    lane = spans.groupby(["rank", "incarnation", "thread", "device"], sort=True).ngroup().to_numpy()
    order = np.lexsort((-spans["duration_s"].to_numpy(), spans["begin_s"].to_numpy(), lane))
    spans, lane = spans.iloc[order], lane[order]
    begin_s, duration_s = spans["begin_s"].to_numpy(), spans["duration_s"].to_numpy()
    # Whole ticks keep an hour to a microsecond, for which a float32 has too few digits.
    tick_s = max(1e-9, float((begin_s + duration_s).max()) / _MAX_TICK)
    operation, operations = _coded(spans["operation"])
    layer, layers = _coded(spans["layer_name"])
    starts = np.flatnonzero(np.diff(lane, prepend=-1))
    return {
        "tick_s": tick_s,
        "lanes": [_lane(row) for row in spans.iloc[starts].to_dict("records")],
        "lane_starts": [*starts.tolist(), len(spans)],
        "operations": [[name, _kind(name)] for name in operations],
        "layers": layers,
        "begin": packed(np.minimum(np.rint(begin_s / tick_s), _MAX_TICK), "uint32"),
        "duration": packed(np.minimum(np.rint(duration_s / tick_s), _MAX_TICK), "uint32"),
        "operation": packed(operation, "uint16"),
        "layer": packed(layer, "uint32"),
        "iteration": _counted(spans["iteration"]),
        "epoch": _counted(spans["epoch"]) if spans["epoch"].notna().any() else None,
    }


def _counted(column: pd.Series[Any]) -> dict[str, Any]:
    return packed(column.fillna(-1).to_numpy(np.int64), "int32")


def _coded(column: pd.Series[Any]) -> tuple[Array, list[str]]:
    codes, texts = column.factorize(sort=True)
    return codes, [str(text) for text in texts]


def _lane(row: dict[str, Any]) -> dict[str, Any]:
    run = f", run {row['incarnation']}" if row["incarnation"] > 1 else ""
    thread = f"{row['thread']} (device)" if row["device"] else str(row["thread"])
    return {"rank": f"rank {row['rank']}{run}", "thread": thread}


_KINDS = ("own work", "communication", "waiting", "copies", "others")


def _kind(name: str) -> str:
    if is_communication(name):
        return "communication"
    if is_wait(name):
        return "waiting"
    if base_operation(name) in COPIES:
        return "copies"
    return "own work" if is_own_work(name) else "others"


def _kind_order(operation: list[str]) -> int:
    return _KINDS.index(operation[1])
