"""Where the time went: per operation and rank, and per rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals as nw
import numpy as np
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis._frames import (
    Floats,
    Frame,
    groups,
    known,
    like,
    numbers,
    opened,
    operation_names,
    wall_s,
    with_operation,
)
from timing_logger.analysis.operations import WAIT, base_operation, is_communication
from timing_logger.analysis.spread import spread_between_ranks
from timing_logger.record import OK

if TYPE_CHECKING:
    import pandas as pd

_NAN = float("nan")

_OPERATION_SCHEMA = {
    "operation": nw.String, "rank": nw.Int64, "incarnation": nw.Int64, "count": nw.Int64,
    "bytes": nw.Float64, "p50_ms": nw.Float64, "p99_ms": nw.Float64, "total_ms": nw.Float64,
    "wall_share": nw.Float64,
}  # fmt: skip

_RANK_SCHEMA = {
    "rank": nw.Int64, "incarnation": nw.Int64, "rows": nw.Int64, "iterations": nw.Int64,
    "wall_s": nw.Float64, "communication_ms": nw.Float64, "communication_share": nw.Float64,
    "waited_ms": nw.Float64,
}  # fmt: skip

_STATUS_SCHEMA = {"operation": nw.String, "status": nw.String, "count": nw.Int64, "of": nw.Int64}


class Summary(NamedTuple):
    """What is worth knowing first about a folder of timings.

    Attributes:
        operations: as :func:`summarize` returns.
        ranks: as :func:`summarize_ranks` returns.
        spread: as ``spread_between_ranks`` returns.
        statuses: as :func:`summarize_statuses` returns.
        counters: as :func:`compare_counters` returns.
        files: ``attrs["files"]`` of ``read_timings``.
        left_out: ``attrs["left_out"]`` of ``read_timings``.
    """

    operations: pd.DataFrame
    ranks: pd.DataFrame
    spread: pd.DataFrame
    statuses: pd.DataFrame
    counters: list[dict[str, Any]]
    files: list[dict[str, Any]]
    left_out: list[dict[str, str]]


def overview(timings: pd.DataFrame) -> Summary:
    """All of the below for what ``read_timings`` returned."""
    files = timings.attrs.get("files", [])
    return Summary(
        operations=summarize(timings),
        ranks=summarize_ranks(timings),
        spread=spread_between_ranks(timings),
        statuses=summarize_statuses(timings),
        counters=compare_counters(files),
        files=files,
        left_out=timings.attrs.get("left_out", []),
    )


def summarize(timings: IntoDataFrameT) -> IntoDataFrameT:
    """One row for each operation, rank and incarnation; the operation with the most time first.

    Columns:
        operation, rank, incarnation.
        count: records, also those without a valid duration.
        bytes: sum of ``message_size_bytes`` (float; NaN if no record states one).
        p50_ms, p99_ms: quantiles of the durations, linearly interpolated (NaN if there are none).
        total_ms: sum of the durations; of ``WAIT`` rows, requests that one call waited for share an
            interval, which counts once.
        wall_share: the time in which at least one was under way, as a part of the rank's wall time,
            which is from the start of its first record to the end of its last (NaN if unknown).
            ``WAIT`` overlaps the operation that is waited for, and threads run side by side: shares
            may add up to more than 1.
    """
    frame = opened(timings)
    walls = {key: wall_s(rows) for key, rows in groups(frame, "rank", "incarnation")}
    found = [
        _operation_row(key, rows, walls[key[1:]])
        for key, rows in groups(frame, "operation", "rank", "incarnation")
    ]
    total_ms: Counter[str] = Counter()
    for row in found:
        total_ms[row[0]] += row[7]
    return like(frame, _OPERATION_SCHEMA, sorted(found, key=lambda row: (-total_ms[row[0]], row[:3])))


def _operation_row(key: tuple[Any, ...], rows: Frame, rank_wall_s: float) -> tuple[Any, ...]:
    durations = known(numbers(rows, "elapsed_ms"))
    sizes = known(numbers(rows, "message_size_bytes"))
    p50, p99 = np.quantile(durations, [0.5, 0.99]) if len(durations) else (_NAN, _NAN)
    total_ms = _waited_ms(rows) if base_operation(key[0]) == WAIT else float(durations.sum())
    n_bytes = float(sizes.sum()) if len(sizes) else _NAN
    under_way_ms = float(np.fmin(total_ms, _union_ms(rows)))  # fmin: the instants may be unknown
    return (*key, len(rows), n_bytes, float(p50), float(p99), total_ms, _share(under_way_ms, rank_wall_s))


def summarize_ranks(timings: IntoDataFrameT) -> IntoDataFrameT:
    """One row for each rank and incarnation.

    Columns:
        rank, incarnation.
        rows: records.
        iterations: distinct training iterations among them.
        wall_s: from the start of the first record to the end of the last, in seconds.
        communication_ms: time in which some communication operation ran: the length of the union
            of their intervals, so that concurrent ones count once.
        communication_share: that as a part of the wall time (0 to 1).
        waited_ms: time of the ``WAIT`` records: somebody was blocked on an operation of its own row.

    A time is NaN if the records do not state the instants that it needs.
    """
    frame = opened(timings)
    found = [_rank_row(key, rows) for key, rows in groups(frame, "rank", "incarnation")]
    return like(frame, _RANK_SCHEMA, found)


def _rank_row(key: tuple[Any, ...], rows: Frame) -> tuple[Any, ...]:
    names = operation_names(rows)
    communication = with_operation(rows, filter(is_communication, names))
    waits = with_operation(rows, [name for name in names if base_operation(name) == WAIT])
    wall, communication_ms = wall_s(rows), _union_ms(communication)
    iterations = len(np.unique(known(numbers(rows, "iteration"))))
    share = _share(communication_ms, wall)
    return (*key, len(rows), iterations, wall, communication_ms, share, _waited_ms(waits))


def summarize_statuses(timings: IntoDataFrameT) -> IntoDataFrameT:
    """One row for each operation and status but ``ok``: what raised, or ended unseen.

    Columns:
        operation, status.
        count: records with that status.
        of: records of the operation.
    """
    frame = opened(timings)
    found = [
        (operation, status, len(those), len(rows))
        for (operation,), rows in groups(frame, "operation")
        for (status,), those in groups(rows.filter(~nw.col("status").is_in([OK, ""])), "status")
    ]
    return like(frame, _STATUS_SCHEMA, found)


def _waited_ms(waits: Frame) -> float:
    """Requests that one ``Waitall`` waited for have a row each, of one and the same interval."""
    once = waits.unique(["thread", "start_counter", "end_counter"]) if len(waits) else waits
    return float(known(numbers(once, "elapsed_ms")).sum())


def _union_ms(rows: Frame) -> float:
    starts, ends = numbers(rows, "start_counter"), numbers(rows, "end_counter")
    whole = ~np.isnan(starts) & ~np.isnan(ends)
    if len(rows) and not whole.any():
        return _NAN
    return 1000 * union_length(starts[whole], ends[whole])


def union_length(starts: Floats, ends: Floats) -> float:
    """Length of the union of the intervals ``[starts[i], ends[i]]``, in any order."""
    if not len(starts):
        return 0.0
    order = np.argsort(starts)
    starts, latest_end = starts[order], np.maximum.accumulate(ends[order])
    covered_until = np.concatenate([starts[:1], latest_end[:-1]])
    return float(np.maximum(latest_end - np.maximum(starts, covered_until), 0.0).sum())


def _share(part_ms: float, whole_s: float) -> float:
    return part_ms / (1000 * whole_s) if whole_s > 0 else _NAN


def compare_counters(files: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What each file's sidecar counted, beside what was read from the file.

    Args:
        files: ``attrs["files"]`` of ``read_timings``.

    Returns:
        For each file a dict with ``rank``, ``incarnation``, ``file`` (its name), ``rows`` (read),
        ``has_sidecar``, ``accepted``, ``written``, ``dropped``, ``pending``, ``closed`` (whether
        the logger came to its end) and ``agrees`` (whether as many rows were read as written).
        What no sidecar states is None.
    """
    return [_counters_of(file) for file in files]


def _counters_of(file: Mapping[str, Any]) -> dict[str, Any]:
    sidecar = file["sidecar"] or {}
    stated = sidecar.get("counters")
    counters = stated if isinstance(stated, dict) else {}
    written, closed = counters.get("written"), sidecar.get("closed")
    return {
        "rank": file["rank"],
        "incarnation": file["incarnation"],
        "file": Path(file["path"]).name,
        "rows": file["rows"],
        "has_sidecar": file["sidecar"] is not None,
        **{name: counters.get(name) for name in ("accepted", "written", "dropped", "pending")},
        "closed": closed if isinstance(closed, bool) else None,
        "agrees": None if written is None else written == file["rows"],
    }
