"""Where the rows of a table stand in a trace: in which process, and when on an axis that begins at 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from timing_logger.analysis.collectives.matching import instants
from timing_logger.analysis.grouping import any_row_of
from timing_logger.analysis.tables import Bools, Floats, Frame, Ints, coded_text, dense_codes, each_text
from timing_logger.record import NS_PER_S


class Process(NamedTuple):
    """One incarnation of a rank."""

    rank: int
    incarnation: int


class TraceRows(NamedTuple):
    """The rows of ``frame``, one entry each unless said otherwise.

    Attributes:
        frame: the table, as ``opened`` returns it.
        operation: names, coded.
        processes: by rank and incarnation.
        process: where the row's process stands among them.
        rank: of the process.
        placed: whether the row says when it began; without that it is nowhere on the axis.
        ended: whether it also says when it ended.
        start_ns, end_ns: since the first instant of the table; 0 where not placed, and the end is the
            start where that is all there is.
        origin_s: the first instant of the table; NaN without any.
        uncertainty_s: of the instants, against other ranks; NaN where unknown.
    """

    frame: Frame
    operation: tuple[Ints, list[str]]
    processes: list[Process]
    process: Ints
    rank: Ints
    placed: Bools
    ended: Bools
    start_ns: Ints
    end_ns: Ints
    origin_s: float
    uncertainty_s: Floats

    def operation_is(self, test: Callable[[str], bool]) -> Bools:
        """What ``test`` says of each row's operation."""
        is_so: Bools = each_text(self.operation, test)
        return is_so


def trace_rows(frame: Frame) -> TraceRows:
    """The rows of a table that ``opened`` returned."""
    rank, incarnation = (frame[name].to_numpy().astype(np.int64) for name in Process._fields)
    process = dense_codes(rank, incarnation)
    start_s, end_s, uncertainty_s = instants(frame)
    placed = ~np.isnan(start_s)
    origin_s = float(start_s[placed].min()) if placed.any() else float("nan")
    start_ns = _since(origin_s, start_s)
    return TraceRows(
        frame=frame,
        operation=coded_text(frame, "operation"),
        processes=[Process(int(rank[row]), int(incarnation[row])) for row in any_row_of(process)],
        process=process,
        rank=rank,
        placed=placed,
        ended=placed & ~np.isnan(end_s),
        start_ns=start_ns,
        end_ns=np.maximum(_since(origin_s, end_s), start_ns),
        origin_s=origin_s,
        uncertainty_s=uncertainty_s,
    )


def _since(origin_s: float, instants_s: Floats) -> Ints:
    ns: Ints = np.rint(np.nan_to_num((instants_s - origin_s) * NS_PER_S)).astype(np.int64)
    return ns


def process_names(rows: TraceRows, files: Sequence[Mapping[str, Any]]) -> list[str]:
    """``"rank 3"``, and in brackets what tells it from others: its run, host, labels, an unaligned clock.

    Args:
        files: ``attrs["files"]`` of the table; hosts and labels stand in the sidecars.
    """
    sidecars = {Process(file["rank"], file["incarnation"]): file["sidecar"] or {} for file in files}
    several_hosts = len({sidecar.get("host") for sidecar in sidecars.values()}) > 1
    unaligned = _unaligned(rows)
    names = []
    for number, process in enumerate(rows.processes):
        sidecar = sidecars.get(process, {})
        remarks = [f"run {process.incarnation}"] if process.incarnation > 1 else []
        remarks += [str(sidecar["host"])] if several_hosts and sidecar.get("host") else []
        remarks += [f"{key}={value}" for key, value in (sidecar.get("labels") or {}).items()]
        remarks += ["clock not aligned"] if number in unaligned else []
        names.append(f"rank {process.rank}" + (f" ({', '.join(remarks)})" if remarks else ""))
    return names


def _unaligned(rows: TraceRows) -> set[int]:
    """Processes whose clock nothing relates to that of the others; only if the table tells."""
    if "clock_uncertainty_s" not in rows.frame.columns or len(rows.processes) < 2:
        return set()
    unknown = np.isnan(rows.uncertainty_s) & rows.placed
    return set(rows.process[unknown].tolist())
