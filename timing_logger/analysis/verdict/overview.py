"""Summarize a run: tables per operation, rank, status and file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.accounting.account import ACCOUNT, PartOfAccount
from timing_logger.analysis.hangs.diagnosis import run_end_of
from timing_logger.analysis.hangs.last_rows import last_rows
from timing_logger.analysis.rows.analysis import COLUMNS_OF, ByProcess
from timing_logger.analysis.rows.arrays import (
    Bools,
    Floats,
    Frame,
    Ints,
    Schema,
    coded_text,
    dense_codes,
    each_text,
    numbers,
    processes_of,
)
from timing_logger.analysis.rows.files import File, FileCounters, different_runs, sidecar_of
from timing_logger.analysis.rows.grouping import any_row_of, counts_known, sums
from timing_logger.analysis.rows.intervals import union_lengths, wall_times_s
from timing_logger.analysis.rows.operations import is_communication, is_wait
from timing_logger.analysis.rows.spread import (
    SynchronisedSteps,
    joined_steps,
    spread_of_steps,
    synchronised_steps,
)
from timing_logger.analysis.rows.steps import steps_of
from timing_logger.analysis.rows.summarize import seen_before, summarize
from timing_logger.analysis.rows.tables import like, opened
from timing_logger.results.run_end import RunEnd
from timing_logger.schema.record import OK

_NAN = float("nan")

_RANK_SCHEMA: Schema = {
    "rank": nw.Int64, "incarnation": nw.Int64, "rows": nw.Int64, "iterations": nw.Int64,
    "wall_s": nw.Float64, "communication_ms": nw.Float64, "communication_share": nw.Float64,
    "waited_ms": nw.Float64,
}  # fmt: skip

_STATUS_SCHEMA: Schema = {"operation": nw.String, "status": nw.String, "count": nw.Int64, "of": nw.Int64}


class Summary(NamedTuple):
    """The summary of a folder of timings.

    Attributes:
        operations: as :func:`summarize` returns.
        ranks: as :func:`summarize_ranks` returns.
        spread: as ``spread_between_ranks`` returns.
        statuses: as :func:`summarize_statuses` returns.
        counters: as :func:`compare_counters` returns.
        files: ``attrs["files"]`` of ``read_timings``.
        left_out: ``attrs["left_out"]`` of ``read_timings``.
        different_runs: why the files look as if they were not of one run; "" if they do not.
        end: as ``hang`` returns.
        account: as :func:`timing_logger.analysis.account` returns.
    """

    operations: pd.DataFrame
    ranks: pd.DataFrame
    spread: pd.DataFrame
    statuses: pd.DataFrame
    counters: list[FileCounters]
    files: list[File]
    left_out: list[dict[str, str]]
    different_runs: str
    end: RunEnd
    account: pd.DataFrame


def overview(timings: pd.DataFrame) -> Summary:
    """Summarize a run.

    Args:
        timings: as ``read_timings`` returns, with its attributes.
    """
    return reduce_summary([map_summary(timings)])


class SummaryPart(NamedTuple):
    """What a summary needs of some of the processes: a few rows each, and the rows of communication.

    Attributes:
        operations, ranks, statuses: as in :class:`Summary`, of these processes.
        steps: sums by step of the operations that synchronise all ranks.
        last: the last rows of each process.
        account: what the account needs; None if it is known from elsewhere.
        files, left_out: attributes of the timings.
    """

    operations: pd.DataFrame
    ranks: pd.DataFrame
    statuses: pd.DataFrame
    steps: SynchronisedSteps
    last: pd.DataFrame
    account: PartOfAccount | None
    files: list[File]
    left_out: list[dict[str, str]]


def map_summary(
    timings: pd.DataFrame, last: pd.DataFrame | None = None, *, with_account: bool = True
) -> SummaryPart:
    """Reduce the rows of whole processes, such as those of one file, to what a summary needs.

    Args:
        timings: the rows.
        last: what ``last_rows`` returned of them, if it was asked already.
        with_account: False if the account of the run will be known from elsewhere.
    """
    return SummaryPart(
        operations=summarize(timings).astype({"operation": "str"}),
        ranks=summarize_ranks(timings),
        statuses=summarize_statuses(timings),
        steps=synchronised_steps(opened(timings, COLUMNS_OF["overview"])),
        last=last_rows(timings) if last is None else last,
        account=ACCOUNT.map(timings) if with_account else None,
        files=timings.attrs.get("files", []),
        left_out=timings.attrs.get("left_out", []),
    )


def reduce_summary(
    parts: Sequence[SummaryPart], end: RunEnd | None = None, account: pd.DataFrame | None = None
) -> Summary:
    """Summarize a run by the parts of all its processes, with the same result as by all rows at once.

    Args:
        parts: as ``map_summary`` returned them.
        end: the end of the run where it is known already; None to find it.
        account: the account of the run where it is known already; None to find it.
    """
    operations, ranks, statuses = (
        pd.concat(tables, ignore_index=True) for tables in zip(*(part[:3] for part in parts), strict=True)
    )
    ranks = ranks.sort_values(["rank", "incarnation"], ignore_index=True)
    spread = spread_of_steps(
        nw.from_native(ranks), joined_steps([part.steps for part in parts]), ranks["wall_s"].to_numpy()
    )
    files = [file for part in parts for file in part.files]
    return Summary(
        operations=_most_first(operations),
        ranks=ranks,
        spread=spread,
        statuses=_counted_together(statuses, operations),
        counters=compare_counters(files),
        files=files,
        left_out=parts[0].left_out,
        different_runs=different_runs(files),
        end=end or run_end_of([part.last for part in parts], files),
        account=ACCOUNT.reduce([part.account for part in parts if part.account])
        if account is None
        else account,
    )


def _most_first(operations: pd.DataFrame) -> pd.DataFrame:
    """Sort rows as ``summarize`` does: the operation with the most time first, then by process."""
    in_order = operations.sort_values(["operation", "rank", "incarnation"], ignore_index=True)
    total_ms = in_order.groupby("operation")["total_ms"].transform("sum")
    most_first: pd.DataFrame = in_order.iloc[np.argsort(-total_ms.to_numpy(), kind="stable")]
    most_first = most_first.reset_index(drop=True)
    return most_first


def _counted_together(statuses: pd.DataFrame, operations: pd.DataFrame) -> pd.DataFrame:
    counts = statuses.groupby(["operation", "status"], as_index=False)["count"].sum()
    rows_of = operations.groupby("operation")["count"].sum()
    counted: pd.DataFrame = counts.assign(of=counts["operation"].map(rows_of).astype("int64"))
    return counted


def summarize_ranks(timings: IntoDataFrameT) -> IntoDataFrameT:
    """Summarize the rows of each rank and incarnation.

    Args:
        timings: a table of timings, as ``read_timings`` returns.

    Returns:
        One row for each rank and incarnation. A time is NaN if the records do not state the instants that
        it needs.

    Columns:
        rank, incarnation.
        rows: number of records.
        iterations: number of distinct training iterations among them; those of each epoch, where they
            restart.
        wall_s: time from the start of the first record to the end of the last, in seconds.
        communication_ms: time in which some communication operation ran: the length of the union
            of their intervals, so that concurrent ones count once.
        communication_share: ``communication_ms`` as a fraction of the wall time (0 to 1).
        waited_ms: time of the ``WAIT`` records: a thread was blocked on an operation that has a row of its
            own.
    """
    frame = opened(timings, COLUMNS_OF["overview"])
    operation = coded_text(frame, "operation")
    process = processes_of(frame)
    example = any_row_of(process)
    wall_s = wall_times_s(frame, process)
    communication_ms = _communication_ms(frame, process, each_text(operation, is_communication))
    columns = (
        *(frame[name].to_numpy()[example] for name in ("rank", "incarnation")),
        np.bincount(process),
        _n_iterations(process, steps_of(frame).number),
        wall_s,
        communication_ms,
        communication_ms / (1000 * np.where(wall_s > 0, wall_s, _NAN)),
        _waited_ms(frame, process, each_text(operation, is_wait)),
    )
    found = zip(*(values.tolist() for values in columns), strict=True)
    return like(frame, _RANK_SCHEMA, list(found))


def _n_iterations(process: Ints, step: Floats) -> Ints:
    inside = ~np.isnan(step)
    example = any_row_of(dense_codes(process[inside], step[inside]))
    return np.bincount(process[inside][example], minlength=process.max(initial=-1) + 1)


def summarize_statuses(timings: IntoDataFrameT) -> IntoDataFrameT:
    """Count the records of each operation by status, without ``ok``: those that raised, or ended unseen.

    Args:
        timings: a table of timings, as ``read_timings`` returns.

    Returns:
        One row for each operation and status except ``ok`` and blank.

    Columns:
        operation, status.
        count: number of records with that status.
        of: number of records of the operation.
    """
    frame = opened(timings, COLUMNS_OF["overview"])
    operation, operations = coded_text(frame, "operation")
    status, statuses = coded_text(frame, "status")
    n_rows = np.bincount(operation * len(statuses) + status, minlength=len(operations) * len(statuses))
    by_status = n_rows.reshape(len(operations), len(statuses))
    found = [
        (operations[i], statuses[j], int(by_status[i, j]), int(by_status[i].sum()))
        for i, j in np.argwhere(by_status)
        if statuses[j] not in (OK, "")
    ]
    return like(frame, _STATUS_SCHEMA, found)


def _waited_ms(frame: Frame, process: Ints, is_waiting: Bools) -> Floats:
    """Return the time in ms that each process waited.

    Requests that one ``Waitall`` waited for have a row each, of one interval, which counts once.
    """
    once = np.flatnonzero(is_waiting & ~seen_before(frame, process, is_waiting))
    return sums(numbers(frame, "elapsed_ms")[once], process[once], process.max(initial=-1) + 1)


def _communication_ms(frame: Frame, process: Ints, communicates: Bools) -> Floats:
    """Return the time in ms in which each process communicated; NaN if that is unknown of all such rows."""
    starts, ends = (numbers(frame, name)[communicates] for name in ("start_counter", "end_counter"))
    n_processes = process.max(initial=-1) + 1
    lasted_ms = 1000 * union_lengths(process[communicates], starts, ends, n_processes)
    n_known = counts_known(starts + ends, process[communicates], n_processes)
    n_rows = np.bincount(process[communicates], minlength=n_processes)
    return np.where((n_rows > 0) & (n_known == 0), _NAN, lasted_ms)


def compare_counters(files: Iterable[File]) -> list[FileCounters]:
    """Compare for each file the counts in its sidecar with the rows that were read from it.

    Args:
        files: ``attrs["files"]`` of ``read_timings``.

    Returns:
        For each file a dict with ``rank``, ``incarnation``, ``file`` (its name), ``rows`` (read),
        ``has_sidecar``, ``accepted``, ``written``, ``dropped``, ``pending``, ``closed`` (whether
        the logger came to its end) and ``agrees`` (whether as many rows were read as written).
        What no sidecar states is None.
    """
    return [_counters_of(file) for file in files]


def _counters_of(file: File) -> FileCounters:
    sidecar = sidecar_of(file)
    counters = sidecar.get("counters", {})
    written = counters.get("written")
    return {
        "rank": file["rank"],
        "incarnation": file["incarnation"],
        "file": Path(file["path"]).name,
        "rows": file["rows"],
        "has_sidecar": file["sidecar"] is not None,
        "accepted": counters.get("accepted"),
        "written": written,
        "dropped": counters.get("dropped"),
        "pending": counters.get("pending"),
        "closed": sidecar.get("closed"),
        "agrees": None if written is None else written == file["rows"],
    }


OVERVIEW = ByProcess(COLUMNS_OF["overview"], map_summary, reduce_summary, row_bytes=700)
"""The analysis :func:`overview` in parts."""
