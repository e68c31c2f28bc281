"""Account for all time of each rank: own work, code that is not timed, transfers, and waiting for whom.

The parts of a rank sum to its wall time. A rank that waits, waits for the last to arrive; where that one
waits, too, at the same instant, for whom that one waits. So each instant of waiting leads to a rank that did
something itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.accounting.lines import LINE, NO_RANK, AccountLines
from timing_logger.analysis.accounting.part import (
    BLOCKED,
    NOT_TIMED,
    OWN,
    WHAT,
    AccountPart,
    Spent,
    map_account,
)
from timing_logger.analysis.accounting.run import AccountOfRun, account_of
from timing_logger.analysis.rows.analysis import COLUMNS_OF, ByProcess
from timing_logger.analysis.rows.arrays import (
    Floats,
    Frame,
    Ints,
    Schema,
    coded_text,
    dense_codes,
    each_text,
    in_few_bytes,
    numbers,
    processes_of,
)
from timing_logger.analysis.rows.files import File
from timing_logger.analysis.rows.grouping import any_row_of, ordered_sums, sums
from timing_logger.analysis.rows.tables import like, nullable_integers, of_pandas, opened, taken

_SCHEMA: Schema = {
    "rank": nw.Int64, "incarnation": nw.Int64, "thread": nw.String, "is_main": nw.Boolean, "what": nw.String,
    "operation": nw.String, "count": nw.Int64, "ms": nw.Float64, "share": nw.Float64,
}  # fmt: skip

_COLUMNS = (
    "rank", "incarnation", "thread", "is_main", "what", "operation", "waited_for", "count", "ms", "share"
)  # fmt: skip


class _Times(NamedTuple):
    """Times of lines by what they did, with the operation as an index into a list of names."""

    line: Ints
    what: Ints
    operation: Ints
    rank: Ints
    n: Ints
    ms: Floats

    def summed(self) -> _Times:
        """Sum the times of each line in which it did the same; the result is in the order of all these."""
        key = dense_codes(self.line, self.what, self.operation, self.rank)
        one = any_row_of(key)
        n, ms = (sums(values, key, len(one)) for values in (self.n, self.ms))
        return self.only(one)._replace(n=n.astype(np.int64), ms=ms)

    def only(self, wanted: Ints) -> _Times:
        """Return the entries at these positions."""
        return _Times._make(values[wanted] for values in self)


def account_table(run: AccountOfRun, frame: nw.DataFrame[IntoDataFrameT]) -> IntoDataFrameT:
    """Return the table that ``account`` returns, in the library of ``frame``."""
    lines = run.lines
    called, names = coded_text(run.rows.met.frame, "operation")
    names = ["", *names, *sorted({name for spent, _ in run.spent for name in spent.operation})]
    code_of = {name: code for code, name in reversed([*enumerate(names)])}
    parts = [
        _blocked(run, called).summed(),
        *(_not_blocked(spent, first, code_of) for spent, first in run.spent),
    ]
    each = _Times._make(np.concatenate(column) for column in zip(*parts, strict=True)).summed()
    each = each.only(np.lexsort((-each.ms, each.line)))
    columns = _columns(lines, each, names)
    table = nw.from_native(like(frame, _SCHEMA, list(zip(*columns, strict=True))), eager_only=True)
    for_whom = np.where(each.rank == NO_RANK, np.nan, each.rank)
    return table.with_columns(nullable_integers(table, "waited_for", for_whom)).select(*_COLUMNS).to_native()


def _columns(lines: AccountLines, each: _Times, names: list[str]) -> list[list[object]]:
    """Return the columns of the table, as ``_SCHEMA`` names them.

    Args:
        lines: all lines.
        each: the times; one row of the table for each.
        names: the operations by their codes.
    """
    line = each.line
    return [
        lines.rank[line].tolist(),
        lines.incarnation[line].tolist(),
        [lines.thread[one] for one in line.tolist()],
        lines.is_main[line].tolist(),
        [WHAT[what] for what in each.what.tolist()],
        [names[operation] for operation in each.operation.tolist()],
        each.n.tolist(),
        each.ms.tolist(),
        (each.ms / lines.wall_ms[line]).tolist(),
    ]


def _blocked(run: AccountOfRun, called: Ints) -> _Times:
    blocked = run.blocked
    line = run.rows.met.frame[LINE].to_numpy()[blocked.row]
    ones = in_few_bytes(np.ones(len(line), np.int64))
    operation = in_few_bytes(called)[blocked.row] + 1
    return _Times(line, blocked.what + BLOCKED, operation, blocked.rank, ones, blocked.ms)


def _not_blocked(spent: Spent, first_line: int, code_of: dict[str, int]) -> _Times:
    operation = np.array([code_of[name] for name in spent.operation], np.int64)
    what, nobody = np.where(operation == code_of[""], NOT_TIMED, OWN), np.full(len(operation), NO_RANK)
    return _Times(spent.line + first_line, what, operation, nobody, spent.n, spent.ms)


def account(timings: IntoDataFrameT) -> IntoDataFrameT:
    """Account for all time of each rank.

    Each instant of a rank's line of control (its thread, or the thread that was blocked or worked longest) is
    of the innermost row that covers it. While the rank is blocked in communication, it waits until all ranks
    that it needs have come (as in :func:`timing_logger.analysis.waits`; in a message, until the other side
    has come); the rest is transfer. It waits for the last of them to come, and where that one itself waits at
    the same instant, for whom that one waits (compare Böhme et al., Identifying the root causes of wait
    states in large-scale parallel applications, 2010, of Scalasca). Clocks that were not measured are
    compared by the ends of collectives, which all ranks leave together.

    Args:
        timings: as ``read_timings`` returns.

    Returns:
        One row for each rank, incarnation, thread and what it did, the longest first.

    Columns:
        rank, incarnation. thread: that of the line. A process has several lines if several of its threads are
        blocked in
            communication; each has an account of its own.
        is_main: whether the line is the one that tells what the process did.
        what: ``own work``; ``not timed``: no row covers it; ``transfer``: in communication, after all had
            come; ``waiting``: for a rank that had not come; ``not matched``: in communication of which the
            rows of other ranks are missing or do not fit.
        operation: of the row: what the rank worked at, or what it waited or transferred in; "" if not timed.
        waited_for: the rank for which it waited; NA where it waited for a transfer between others, and where
            it did not wait.
        count: number of stretches of time.
        ms: their sum in ms; over the rows of a line it is the wall time of the process.
        share: ``ms`` as a fraction of that wall time, in [0, 1].
    """
    frame = opened(timings, COLUMNS_OF["account"])
    files = getattr(timings, "attrs", {}).get("files", [])
    return account_table(account_of([map_account(frame)], files), frame)


# -- from parts --------------------------------------------------------------------------------------


class PartOfAccount(NamedTuple):
    """What the account of a run needs of some processes, and their files."""

    account: AccountPart
    files: list[File]


def _map(timings: pd.DataFrame) -> PartOfAccount:
    frame = opened(timings, COLUMNS_OF["account"])
    return PartOfAccount(map_account(frame), timings.attrs.get("files", []))


def _reduce(parts: Sequence[PartOfAccount]) -> pd.DataFrame:
    files = [file for part in parts for file in part.files]
    found: pd.DataFrame = account_table(account_of([part.account for part in parts], files), of_pandas())
    return found


ACCOUNT = ByProcess(COLUMNS_OF["account"], _map, _reduce, row_bytes=700)
"""The analysis :func:`account` in parts: a part holds the rows of communication, and sums of all others."""


# -- sum an account by rank, and by pair of ranks: the figures that reports show -------------------------


PARTS = {what: f"{what.replace(' ', '_')}_ms" for what in WHAT}
"""The parts of a rank's wall time, and the columns of :func:`summarize_account` that have them."""

_PROCESS = ("rank", "incarnation")
_RANKS: Schema = {
    **dict.fromkeys(_PROCESS, nw.Int64), "wall_ms": nw.Float64, **dict.fromkeys(PARTS.values(), nw.Float64)
}  # fmt: skip
_PAIRS: Schema = {**dict.fromkeys(_PROCESS, nw.Int64), "ms": nw.Float64, "share": nw.Float64}


def summarize_account(account: IntoDataFrameT) -> IntoDataFrameT:
    """Sum what each rank did with its time; of several threads that are blocked, the one that tells.

    Args:
        account: as :func:`timing_logger.analysis.account` returns.

    Returns:
        One row for each rank and incarnation that has an account, in ascending order.

    Columns:
        rank, incarnation.
        wall_ms: the wall time of the process, in ms: the sum of its parts.
        own_work_ms, not_timed_ms, transfer_ms, waiting_ms, not_matched_ms: the parts, as ``account`` tells
            them apart.
    """
    frame = _of_main_lines(account)
    code, names = coded_text(frame, "what")
    process = processes_of(frame)
    one = any_row_of(process)
    ms = numbers(frame, "ms")
    parts = []
    for what in WHAT:
        its = np.flatnonzero(code == (names.index(what) if what in names else -1))
        parts.append(ordered_sums(ms[its], process[its], len(one)))
    identity = [frame[name].to_numpy()[one] for name in _PROCESS]
    rows = zip(*(values.tolist() for values in (*identity, np.sum(parts, axis=0), *parts)), strict=True)
    return like(nw.from_native(account, eager_only=True), _RANKS, list(rows))


def waiting_by_rank(account: IntoDataFrameT) -> IntoDataFrameT:
    """Sum for whom each rank waited.

    Args:
        account: as :func:`timing_logger.analysis.account` returns.

    Returns:
        One row for each rank, incarnation and rank that it waited for, the longest first.

    Columns:
        rank, incarnation: who waited.
        waited_for: for which rank; NA for transfers between others. A rank waits for itself if one of its
            threads waits for another one.
        ms: for how long, in ms; over the rows of a rank it is ``waiting_ms`` of :func:`summarize_account`.
        share: ``ms`` as a fraction of all waiting of all ranks.
    """
    frame = _of_main_lines(account)
    frame = taken(
        frame, frame.columns, np.flatnonzero(each_text(coded_text(frame, "what"), "waiting".__eq__))
    )
    whom = numbers(frame, "waited_for")
    pair = dense_codes(*(frame[name].to_numpy() for name in _PROCESS), whom)
    one = any_row_of(pair)
    ms = ordered_sums(numbers(frame, "ms"), pair, len(one))
    order = np.argsort(-ms, kind="stable")
    one, ms = one[order], ms[order]
    share = ms / ordered_sums(ms, np.zeros(len(ms), np.int64), 1)
    identity = [frame[name].to_numpy()[one] for name in _PROCESS]
    rows = zip(*(values.tolist() for values in (*identity, ms, share)), strict=True)
    library = nw.from_native(account, eager_only=True)
    table = nw.from_native(like(library, _PAIRS, list(rows)), eager_only=True)
    table = table.with_columns(nullable_integers(table, "waited_for", whom[one]))
    return table.select(*_PROCESS, "waited_for", "ms", "share").to_native()


def _of_main_lines(account: IntoDataFrameT) -> Frame:
    frame: Frame = opened(account, ())
    return taken(frame, frame.columns, np.flatnonzero(frame["is_main"].to_numpy()))
