"""The process of each row of a trace, and its position on a time axis that begins at 0."""

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
    """The rows of ``frame``, one entry per row unless stated otherwise.

    Attributes:
        frame: the table, as ``opened`` returns it.
        operation: the names of the operations, as codes and texts.
        processes: all processes, sorted by rank and incarnation.
        process: the index of the row's process in ``processes``.
        rank: the rank of the process.
        placed: whether the row has a start; without one it has no place on the axis.
        ended: whether the row also has an end.
        start_ns, end_ns: time since the first instant of the table; 0 if not placed, and the end is the start
            if only that is known.
        origin_s: the first instant of the table; NaN if there is none.
        uncertainty_s: the uncertainty of the instants against other ranks; NaN if unknown.
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
        """Return the result of ``test`` for each row's operation."""
        is_so: Bools = each_text(self.operation, test)
        return is_so


def trace_rows(frame: Frame) -> TraceRows:
    """Return the rows of a table that ``opened`` returned."""
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
    """Return the name of each process: ``"rank 3"``, and in brackets what distinguishes it from others.

    That is its run, host, labels, and whether its clock is not aligned.

    Args:
        files: ``attrs["files"]`` of the table, whose sidecars contain hosts and labels.
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
    """Return the processes whose clock is not related to that of the others, if the table states it."""
    if "clock_uncertainty_s" not in rows.frame.columns or len(rows.processes) < 2:
        return set()
    unknown = np.isnan(rows.uncertainty_s) & rows.placed
    return set(rows.process[unknown].tolist())
