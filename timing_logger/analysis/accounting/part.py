"""Reduce the rows of whole processes to what an account of the run needs of them.

How a process spent the time in which it was not blocked is known from its rows alone. For whom it waited is
not, so the rows of communication are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from narwhals.typing import IntoDataFrame

from timing_logger.analysis.accounting.lines import (
    LINE,
    NO_RANK,
    PROCESS,
    AccountLines,
    Holds,
    Roles,
    holds_of,
    is_kept,
    lines_of,
)
from timing_logger.analysis.accounting.loops import innermost
from timing_logger.analysis.rows.analysis import EPOCH_OF_STEP, MEANING_OF_EPOCHS, PROCESS_RESTARTS
from timing_logger.analysis.rows.arrays import (
    Bools,
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    in_few_bytes,
    numbers,
    processes_of,
)
from timing_logger.analysis.rows.grouping import any_row_of, sums
from timing_logger.analysis.rows.intervals import MAIN_THREAD
from timing_logger.analysis.rows.steps import epochs_of
from timing_logger.analysis.rows.tables import new_column, taken

OWN, NOT_TIMED, BLOCKED = range(3)
WHAT = ["own work", "not timed", "transfer", "waiting", "not matched"]
"""What a line did: first what it did while it was not blocked, then, from ``BLOCKED`` on, by the codes of
``Blocked.what``."""


class LineStretches(NamedTuple):
    """Stretches of time of the lines that tell what their processes did.

    Attributes:
        rank, incarnation: of the process.
        start_s, end_s: on the clock of the process, in seconds.
        what: the position in ``WHAT`` of what it did.
        operation: the position in ``operations`` of what it worked at, waited or transferred in; -1 where no
            row covers the time.
        waited_for: the rank for which it waited; ``NO_RANK`` where it waited for none.
        operations: names.
    """

    rank: Ints
    incarnation: Ints
    start_s: Floats
    end_s: Floats
    what: Ints
    operation: Ints
    waited_for: Ints
    operations: list[str]

    def only(self, wanted: Bools | Ints) -> LineStretches:
        """Return the stretches that are ``wanted``, by a mask or by their positions."""
        return self._replace(**{name: getattr(self, name)[wanted] for name in _ARRAYS})

    @classmethod
    def none(cls) -> LineStretches:
        """Return no stretch."""
        none, nothing = np.zeros(0, np.int64), np.zeros(0)
        return cls(none, none, nothing, nothing, none, none, none, [])

    @classmethod
    def joined(cls, several: Sequence[LineStretches]) -> LineStretches:
        """Put stretches one after the other."""
        names = list(dict.fromkeys(name for one in several for name in one.operations))
        code_of = {name: code for code, name in enumerate(names)}
        moved = [
            one._replace(operation=np.array([*map(code_of.get, one.operations), -1])[one.operation])
            for one in several
        ]
        columns = {name: np.concatenate([getattr(one, name) for one in moved]) for name in _ARRAYS}
        return cls(operations=names, **columns)


_ARRAYS = tuple(name for name in LineStretches._fields if name != "operations")


def _own_stretches(frame: Frame, lines: AccountLines, roles: Roles) -> LineStretches:
    """Return the stretches in which processes were not blocked: their own work, and what no row covers."""
    rest = rest_of(frame, lines, roles)
    rest = Rest._make(values[lines.is_main[rest.line]] for values in rest)
    code, names = coded_text(frame, "operation")
    operation = np.full(len(rest.row), -1)
    operation[rest.is_timed] = code[rest.row[rest.is_timed]]
    return LineStretches(
        *lines.process_of(rest.line), rest.start_s, rest.end_s,
        what=np.where(rest.is_timed, OWN, NOT_TIMED).astype(np.int8),
        operation=in_few_bytes(operation), waited_for=np.full(len(rest.row), NO_RANK, np.int8),
        operations=names,
    )  # fmt: skip


NO_ROW = -1


class Rest(NamedTuple):
    """The stretches of time in which lines were not blocked.

    Attributes:
        line: the line.
        start_s, end_s: on the clock of its process, in seconds.
        row: the row that covers the stretch; where none does, the row after it, or ``NO_ROW`` at the end.
        before: the row before a stretch that no row covers; ``NO_ROW`` at the beginning, and for others.
        is_timed: whether a row covers the stretch.
    """

    line: Ints
    start_s: Floats
    end_s: Floats
    row: Ints
    before: Ints
    is_timed: Bools


def rest_of(frame: Frame, lines: AccountLines, roles: Roles) -> Rest:
    """Return how all lines that have an account spent the time in which they were not blocked.

    Args:
        frame: the rows of whole processes.
        lines, roles: as ``lines_of`` returned them.
    """
    start_s, end_s = numbers(frame, "start_counter"), numbers(frame, "end_counter")
    holds = holds_of(roles.line, roles.holds, start_s, end_s)
    holds = holds.only(roles.blocks[holds.row])
    works = np.flatnonzero(roles.works & (end_s > start_s))
    intervals = Holds(works, roles.line[works], start_s[works], end_s[works])
    n_lines = len(lines.process)
    by_line = zip(range(n_lines), _split(intervals, n_lines), _split(holds, n_lines), strict=True)
    found = [_of_line(line, lines, own, blocked) for line, own, blocked in by_line if lines.has_account[line]]
    if not found:
        none = np.zeros(0, np.int64)
        return Rest(none, np.zeros(0), np.zeros(0), none, none, np.zeros(0, np.bool_))
    return Rest._make(np.concatenate(column) for column in zip(*found, strict=True))


def _split(intervals: Holds, n_lines: int) -> Iterator[Holds]:
    order = np.argsort(intervals.line, kind="stable")
    ends = np.searchsorted(intervals.line[order], np.arange(1, n_lines + 1))
    for begin, end in pairwise([0, *ends.tolist()]):
        yield Holds._make(values[order[begin:end]] for values in intervals)


def _of_line(
    line: int, lines: AccountLines, works: Holds, holds: Holds
) -> tuple[Ints, Floats, Floats, Ints, Ints, Bools]:
    row = np.concatenate([works.row, holds.row])
    start_s, end_s = (
        np.concatenate([a, b]) for a, b in ((works.start_s, holds.start_s), (works.end_s, holds.end_s))
    )
    is_hold = np.arange(len(row)) >= len(works.row)
    order = np.lexsort((is_hold, -end_s, start_s))
    begins_s, ends_s, of_piece = innermost(start_s[order], end_s[order], is_hold[order])
    owner = order[of_piece]
    own = ~is_hold[owner]
    gap_starts_s = np.concatenate([lines.begin_s[[line]], ends_s])
    gap_ends_s = np.concatenate([begins_s, lines.end_s[[line]]])
    gap = gap_ends_s > gap_starts_s
    after, before = np.append(row[owner], NO_ROW)[gap], np.insert(row[owner], 0, NO_ROW)[gap]
    n_own, n_gaps = int(own.sum()), int(gap.sum())
    return (
        np.full(n_own + n_gaps, line),
        np.concatenate([begins_s[own], gap_starts_s[gap]]),
        np.concatenate([ends_s[own], gap_ends_s[gap]]),
        np.concatenate([row[owner[own]], after]),
        np.concatenate([np.full(n_own, NO_ROW), before]),
        np.repeat([True, False], [n_own, n_gaps]),
    )


PLACE, HOLDS, BLOCKS = "place", "holds", "blocks"
"""Columns of the rows that are kept, beside those of the timings.

Beside the number of the row's process and line they are the position of its step among those of the process,
and what ``lines.Roles`` tells of it."""

OF_TIMINGS = (
    "rank", "incarnation", "thread", "clock", "stream", "operation", "group", "group_size", "seq",
    "peer", "message_size_bytes", "status", "elapsed_ms", "start_counter", "end_counter", "iteration",
)  # fmt: skip
ON_ONE_AXIS = ("start_s", "end_s", "clock_uncertainty_s")


class Spent(NamedTuple):
    """How lines spent the time in which they were not blocked: sums; one entry per line and operation.

    Attributes:
        line: the line.
        operation: the name of the work; "" where no row covers the time.
        n: the number of stretches.
        ms: their sum.
    """

    line: Ints
    operation: list[str]
    n: Ints
    ms: Floats


class CommunicationPart(NamedTuple):
    """What is needed of some processes to tell for whom they waited.

    Attributes:
        lines: their lines of control.
        rows: a list with a table of the rows of communication, which is taken out, so that no row is held
            twice.
    """

    lines: AccountLines
    rows: list[IntoDataFrame]


class AccountPart(NamedTuple):
    """What the account of a run needs of some processes.

    Attributes:
        communication: their lines of control, and rows of communication.
        spent: how the lines spent the time in which they were not blocked.
    """

    communication: CommunicationPart
    spent: Spent


def map_account(frame: Frame, place: Ints | None = None) -> AccountPart:
    """Reduce the rows of whole processes, in a table that ``opened`` returned, to what an account needs.

    Args:
        frame: the rows.
        place: as for :func:`map_communication`; None where no steps are asked for.
    """
    process, place = processes_of(frame), np.full(len(frame), -1) if place is None else place
    lines, roles = lines_of(frame, process)
    communication = _communication(frame, process, place, (lines, roles))
    return AccountPart(communication, _spent(frame, rest_of(frame, lines, roles)))


def map_own_stretches(frame: Frame) -> LineStretches:
    """Return how whole processes spent the time in which they were not blocked, stretch by stretch."""
    return _own_stretches(frame, *lines_of(frame, processes_of(frame)))


def map_stretches_of_main_thread(frame: Frame) -> LineStretches:
    """Return the same of the processes of which the main thread tells what they did."""
    lines, roles = lines_of(frame, processes_of(frame))
    is_main_thread = np.array([thread == MAIN_THREAD for thread in lines.thread], np.bool_)
    return _own_stretches(frame, lines._replace(is_main=lines.is_main & is_main_thread), roles)


def map_communication(frame: Frame, process: Ints, place: Ints) -> CommunicationPart:
    """Reduce the rows of whole processes to those of communication.

    Args:
        frame: a table that ``opened`` returned.
        process: for each row the number of its process, from 0.
        place: for each row the position of its step among the steps of its process; -1 outside of any step.
    """
    return _communication(frame, process, place, lines_of(frame, process))


def _communication(
    frame: Frame, process: Ints, place: Ints, lines_and_roles: tuple[AccountLines, Roles]
) -> CommunicationPart:
    lines, roles = lines_and_roles
    row = np.flatnonzero(each_text(coded_text(frame, "operation"), is_kept))
    epochs = epochs_of(frame)
    added = {
        EPOCH_OF_STEP: epochs.of_row[row],
        PROCESS_RESTARTS: epochs.restarts[row],
        MEANING_OF_EPOCHS: np.full(len(row), int(epochs.meaning), np.int8),
        PROCESS: process[row].astype(np.int32),
        PLACE: place[row].astype(np.int32),
        LINE: roles.line[row].astype(np.int32),
        HOLDS: roles.holds[row],
        BLOCKS: roles.blocks[row],
    }
    columns = [*OF_TIMINGS, *(name for name in ON_ONE_AXIS if name in frame.columns)]
    table = taken(frame, columns, row).with_columns(*(new_column(frame, *column) for column in added.items()))
    return CommunicationPart(lines, [table.to_native()])


def _spent(frame: Frame, rest: Rest) -> Spent:
    code, names = coded_text(frame, "operation")
    timed = np.where(rest.is_timed, rest.row, 0)
    operation = np.where(rest.is_timed, code[timed] if len(code) else -1, -1)
    key = dense_codes(rest.line, operation)
    one = any_row_of(key)
    return Spent(
        line=rest.line[one],
        operation=["" if at < 0 else names[at] for at in operation[one]],
        n=np.bincount(key, minlength=len(one)),
        ms=sums(1e3 * (rest.end_s - rest.start_s), key, len(one)),
    )
