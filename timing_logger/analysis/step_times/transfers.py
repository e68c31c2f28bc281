"""Measure communication by step: transfer times without waiting, and how long ranks waited for each other.

The last rank to arrive waits for nobody, so the transfer time of a collective is the least time that a rank
spent in it. A message takes from when both sides had come until the receiver has it; a sender that does not
wait for the receiver need not be waited for by the message either. Waits are sums of the account of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.lines import NO_RANK, PROCESS, AccountLines, is_set_up
from timing_logger.analysis.accounting.part import BLOCKS, CommunicationPart
from timing_logger.analysis.accounting.program import Program, calls_of, message_times, program_of
from timing_logger.analysis.accounting.run import (
    NOT_MATCHED,
    TRANSFER,
    WAITING,
    Blocked,
    blocked_in,
    joined_rows,
    met,
    steps_by_place,
    tied_rows,
)
from timing_logger.analysis.accounting.ties import Meetings, TiedRows, Ties
from timing_logger.analysis.collectives.matching import transfer_times_ms, with_bytes
from timing_logger.analysis.rows.arrays import (
    Bools,
    Floats,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    in_few_bytes,
    numbers,
)
from timing_logger.analysis.rows.grouping import (
    any_row_of,
    counts_known,
    greatest_of_each,
    known_sums,
    size_classes,
)
from timing_logger.analysis.rows.intervals import durations_ms, instants
from timing_logger.analysis.rows.operations import ALL_TO_ALL, SYNCHRONISING, base_operation, goes_on


class Shape(NamedTuple):
    """The shape of arrays by step and rank."""

    steps: int
    ranks: int


class Places(NamedTuple):
    """Where processes and their steps are in arrays by step and rank.

    Attributes:
        ranks: the rank of each column, ascending.
        column: for each process the column of its rank.
        steps: the row of each step of each process, in the order of these.
        n_steps: for each process the number of its steps.
        shape: of the arrays.
    """

    ranks: Ints
    column: Ints
    steps: Ints
    n_steps: Ints
    shape: Shape


class Communication(NamedTuple):
    """The rows of communication of a run, placed in arrays by step and rank.

    Attributes:
        rows: the rows.
        blocked: what lines did while these blocked them.
        step: for each row the position of its step; NaN outside of any step.
        column: for each row the column of its rank.
        ranks: the rank of each column, ascending.
        shape: of arrays by step and rank.
    """

    rows: TiedRows
    blocked: Blocked
    step: Floats
    column: Ints
    ranks: Ints
    shape: Shape


class Played(NamedTuple):
    """A run as a program that can be played again.

    Attributes:
        program: its steps are those of the arrays by step and rank.
        call: for each node a number of what is called.
        column_of_line: for each line the column of its rank.
        ties: the ties of rows of communication to the meetings of the program.
        restarts: whether some rank was started again: its runs are no one program.
    """

    program: Program
    call: Ints
    column_of_line: Ints
    ties: Ties
    restarts: bool


def placed(
    parts: Sequence[CommunicationPart], at: Places, world_size: int | None, *, by_step: bool
) -> tuple[Communication, AccountLines]:
    """Match the rows of communication, and tell what ranks did in them; also return their lines of control.

    Args:
        parts: the communication of all processes; they lose their rows.
        at: where the processes are in arrays by step and rank.
        world_size: the number of ranks in the run; None if unknown.
        by_step: whether collectives without a number are matched step by step.
    """
    rows, lines = joined_rows(parts)
    step = steps_by_place(rows, at.steps, at.n_steps)
    tied = tied_rows(met(rows, lines, step if by_step else np.full(len(step), np.nan), world_size))
    blocked = blocked_in(tied)  # which takes most memory
    column = at.column[rows[PROCESS].to_numpy()]
    return Communication(tied, blocked, step, column, at.ranks, at.shape), lines


def played_of(rows: TiedRows, step: Floats, lines: AccountLines, at: Places) -> Played:
    """Make a program of the rows of communication and their lines, ``step`` being that of each row."""
    program = program_of(rows, lines, step, max(1, at.shape.steps))
    restarts = len(at.column) > len(at.ranks)
    return Played(program, calls_of(program, rows), at.column[lines.process], rows.ties, restarts)


def wall_ms(lines: AccountLines) -> float:
    """Return how long the run lasted on the rank that was there longest, in ms; 0 if unknown."""
    of_rank = dense_codes(lines.rank[lines.is_main])
    return float(np.bincount(of_rank, lines.wall_ms[lines.is_main]).max(initial=0.0))


MESSAGE = "SEND"


class Link(NamedTuple):
    """A transfer that recurs: the same operation with messages of the same size class between the same ranks.

    Attributes:
        operation: a base operation; ``SEND`` for messages.
        group: the name of the group.
        size_class_bytes: the least power of two that is no less than the bytes of a message; -1 if unknown.
        columns: the columns of the ranks that take part, in arrays by step and rank; for a message the
            sender's and the receiver's.
    """

    operation: str
    group: str
    size_class_bytes: int
    columns: tuple[int, ...]

    @property
    def family(self) -> tuple[str, int, int]:
        """The operation, size class and number of ranks: links of one family differ in their ranks alone."""
        return self.operation, self.size_class_bytes, len(self.columns)


class Transfers(NamedTuple):
    """The transfers of a run by step and link.

    Attributes:
        links: the link of each column.
        mean_ms: steps x links, the mean time of one transfer in ms; NaN in steps where none is known.
        n: steps x links, the number of transfers, with those of which the time is not known.
        mean_bytes: steps x links, the mean size of their messages; NaN where none is known.
        link: for each meeting of the run (the collectives, then the messages) the number of its link, also
            where its own time is unknown; -1 for none.
        step: for each meeting the position of its step; 0 where it has no link.
    """

    links: list[Link]
    mean_ms: Floats
    n: Ints
    mean_bytes: Floats
    link: Ints
    step: Ints

    def takes_part(self, n_ranks: int) -> Bools:
        """Tell for each link and rank whether the rank takes part in the link (links x ranks)."""
        found = np.zeros((len(self.links), n_ranks), np.bool_)
        for i, link in enumerate(self.links):
            found[i, list(link.columns)] = True
        return found


def transfers_by_step(of: Communication) -> Transfers:
    """Compute the transfer times of messages, and of collectives in which every rank needs every other."""
    parts, send = of.rows.met.parts, of.rows.met.messages.send
    row = np.concatenate([parts.row[parts.first], send])
    elapsed_ms = np.concatenate([_collectives_ms(of.rows.met), _messages_ms(of)])
    size = numbers(of.rows.met.frame, "message_size_bytes")[row]
    size_class = size_classes(size)
    counts = ~np.isnan(of.step[row]) & (size_class != 0)
    link, example = _linked(of, row, size_class, counts, counts & (elapsed_ms > 0))
    links = [_link(of, int(i), float(size_class[i]), int(row[i])) for i in example]
    step = np.where(link >= 0, of.step[row], 0).astype(np.int64)
    known = (link >= 0) & (elapsed_ms > 0)
    cell, n_cells = step[known] * len(links) + link[known], of.shape.steps * len(links)
    mean_ms, mean_bytes = (
        known_sums(its, cell, n_cells) / np.maximum(counts_known(its, cell, n_cells), 1)
        for its in (elapsed_ms[known], size[known])
    )
    count = np.bincount((step * len(links) + link)[link >= 0], minlength=n_cells)
    shape = of.shape.steps, len(links)
    of_the_held = (0, len(parts.first))  # the last meetings, see Ties.meeting, are of no link
    link, step = np.pad(link, of_the_held, constant_values=-1), np.pad(step, of_the_held)
    return Transfers(
        links, mean_ms.reshape(shape), count.reshape(shape), mean_bytes.reshape(shape), link, step
    )


def _linked(
    of: Communication, row: Ints, size_class: Floats, counts: Bools, is_timed: Bools
) -> tuple[Ints, Ints]:
    """Return the number of each meeting's link, -1 for none, and a timed meeting of each link.

    Links of which no time is known do not count.
    """
    parts, (send, receive) = of.rows.met.parts, of.rows.met.messages
    # Groups by their number among the communicators, pairs of ranks by one among those of operation -1.
    ends = parts.communicator[parts.first]
    pair = of.column[send] * of.shape.ranks + of.column[receive]
    operation = np.concatenate([parts.operation[parts.first], np.full(len(send), -1)])
    group, _ = coded_text(of.rows.met.frame, "group")
    key = (operation, group[row], size_class, np.concatenate([ends, pair]))
    code = np.full(len(row), -1)
    code[counts] = dense_codes(*(column[counts] for column in key))
    timed = np.unique(code[is_timed])
    number = np.full(int(code.max(initial=-1)) + 2, -1)  # the last is for meetings without a code
    number[timed] = np.arange(len(timed))
    example = np.flatnonzero(is_timed)
    return number[code], example[any_row_of(number[code[example]])]


def _collectives_ms(met: Meetings) -> Floats:
    """Return the transfer time of each collective; NaN where not all ranks need each other and have rows."""
    parts = met.parts
    if not len(parts.row):
        return np.zeros(0)
    elapsed_ms = durations_ms(met.frame)[parts.row]
    transfer_ms = transfer_times_ms(parts, elapsed_ms, with_bytes(met.frame, parts))[parts.first]
    return np.where(met.is_whole & parts.is_one_of(ALL_TO_ALL)[parts.first], transfer_ms, np.nan)


# -- messages ------------------------------------------------------------------------------------------


def _messages_ms(of: Communication) -> Floats:
    """Return how long each message took, in ms; NaN where its rows do not show it.

    Where the clocks of its ranks cannot be compared, it is the time of the side that came last.
    """
    messages, axis = of.rows.met.messages, of.rows.axis
    found = message_times(axis, messages, axis.frame[PROCESS].to_numpy())
    elapsed_ms = numbers(of.rows.met.frame, "elapsed_ms")
    of_last_ms = np.minimum(*(elapsed_ms[side] for side in messages))
    of_last_ms = np.where(_ended_alone(of), of_last_ms, np.nan)
    are_comparable = axis.clocks[messages.send] == axis.clocks[messages.receive]
    return np.where(are_comparable, 1e3 * found.took_s, of_last_ms)


def _ended_alone(of: Communication) -> Bools:
    """Tell of each message whether neither of its rows ended together with another.

    Non-blocking messages that one ``Waitall`` waits for all end with it in their rows; only the last of them
    is known to have taken as long as its row says.
    """
    frame, both = of.rows.met.frame, np.concatenate(of.rows.met.messages)
    elapsed_s = numbers(frame, "elapsed_ms")[both] / 1e3
    end_s = numbers(frame, "start_counter")[both] + elapsed_s
    together = dense_codes(of.column[both], np.rint(end_s * 1e7))
    in_background = each_text(coded_text(frame, "operation"), goes_on)[both]
    alone = (np.bincount(together)[together] == 1) | ~in_background | np.isnan(end_s)
    found: Bools = np.logical_and(*np.split(alone, 2))
    return found


def _link(of: Communication, i: int, size_class: float, row: int) -> Link:
    """Return the link of the i-th meeting; collectives come before messages."""
    met, column = of.rows.met, of.column
    group = str(met.frame["group"][row] or "")
    size = -1 if np.isnan(size_class) else int(size_class)
    if i >= len(met.parts.first):
        receive = met.messages.receive[i - len(met.parts.first)]
        return Link(MESSAGE, group, size, (int(column[row]), int(column[receive])))
    first = met.parts.first[i]
    members = column[met.parts.row[first : first + met.parts.n_parts[i]]]
    return Link(met.parts.operations[met.parts.operation[first]], group, size, tuple(members.tolist()))


# -- waits ---------------------------------------------------------------------------------------------


class Waits(NamedTuple):
    """Waits by step and rank (steps x ranks), in ms.

    Entries are NaN where nothing tells: the rank was in no communication that could be matched.

    Attributes:
        own_ms: how long the rank waited for others.
        for_it_ms: how long all others together waited for the rank.
        longest_ms: how long that one waited for it which waited longest.
        unmatched_ms: how long the rank was blocked in communication that does not tell for whom it waited.
            The set-up of communication, as ``MPI_INIT``, does not count.
        pending_ms: how long that operation of the rank in the background waited for others that waited
            longest: a stream of a device may stand still for it, and no row tells.
        varying_ms: for each rank, and at last for transfers between others, how long others waited for it
            beyond what each waited for it in half of the steps or more: waits that recur so are how the ranks
            share their work.
        recurring_ms: likewise, those waits that recur so.
        transfer_ms: how long the rank was blocked in collectives that all leave together after the last had
            come. Others do not count: a root has more to do than the rest.
        clock_ms: by how much that may be wrong, as clocks are compared; NaN where nobody measured them.
    """

    own_ms: Floats
    for_it_ms: Floats
    longest_ms: Floats
    unmatched_ms: Floats
    pending_ms: Floats
    varying_ms: Floats
    recurring_ms: Floats
    transfer_ms: Floats
    clock_ms: Floats


def waits_by_step(of: Communication) -> Waits:
    """Sum the waits of a run by step and rank."""
    found, shape = _Stretches.of(of), of.shape

    def sum_ms(wanted: Bools, ms: Floats = found.ms, cell: Ints = found.cell) -> Floats:
        total_ms = np.bincount(cell[wanted], ms[wanted], minlength=shape.steps * shape.ranks)
        return total_ms.reshape(shape).astype(np.float64)

    is_told = sum_ms(found.is_known, np.ones(len(found.ms))) > 0
    told = (
        sum_ms(found.waits), sum_ms(found.for_another, cell=found.owner_cell), _longest_ms(found, shape),
        sum_ms(found.transfers),
    )  # fmt: skip
    own_ms, for_it_ms, longest_ms, transfer_ms = (np.where(is_told, values, np.nan) for values in told)
    counts = found.waits & (found.owner != found.by)
    owner, ms = found.owner[counts], found.ms[counts]
    varying_ms = _varying_ms(of, owner, found.by[counts], found.step[counts], ms)
    recurring_ms = np.bincount(owner, ms, minlength=shape.ranks + 1) - varying_ms
    off_ms = 1e3 * instants(of.rows.axis.frame)[2][found.row] + (np.nan if of.rows.axis.by_rows else 0.0)
    return Waits(
        own_ms, for_it_ms, longest_ms, sum_ms(found.unmatched), _pending_ms(of), varying_ms, recurring_ms,
        transfer_ms, clock_ms=sum_ms(found.transfers, off_ms),
    )  # fmt: skip


class _Stretches(NamedTuple):
    """The times in which ranks were blocked; one entry for each.

    Attributes:
        row: the row that blocked the rank.
        step: the position of its step; 0 outside of any step.
        by: the column of the rank.
        owner: the column of the rank that it waited for; that behind the last for no rank.
        cell, owner_cell: the places of the rank, and of the one that it waited for, by step and rank.
        ms: how long each lasted, in ms.
        is_known, waits, for_another, transfers, unmatched: what it is: told at all, waiting, waiting for
            another rank, transfer of a collective that all leave together, and of unknown whom; none of these
            outside of any step.
    """

    row: Ints
    step: Ints
    by: Ints
    owner: Ints
    cell: Ints
    owner_cell: Ints
    ms: Floats
    is_known: Bools
    waits: Bools
    for_another: Bools
    transfers: Bools
    unmatched: Bools

    @classmethod
    def of(cls, of: Communication) -> _Stretches:
        blocked, shape = of.blocked, of.shape
        row, what, by = blocked.row, blocked.what, of.column[blocked.row]
        inside = ~np.isnan(of.step[row])
        waits = inside & (what == WAITING)
        to_rank = waits & (blocked.rank != NO_RANK)
        owner = np.where(to_rank, np.searchsorted(of.ranks, blocked.rank), shape.ranks)
        step = np.where(inside, of.step[row], 0).astype(np.int64)
        numbers = step, by, owner, step * shape.ranks + by, step * shape.ranks + owner
        step, by, owner, cell, owner_cell = (in_few_bytes(values) for values in numbers)
        unmatched = inside & (what == NOT_MATCHED)
        named = coded_text(of.rows.axis.frame, "operation")
        together = each_text(named, lambda name: base_operation(name) in SYNCHRONISING)
        return cls(
            row, step, by, owner, cell, owner_cell, blocked.ms, inside & ~unmatched, waits,
            to_rank & (owner != by), inside & (what == TRANSFER) & together[row],
            unmatched & ~is_set_up(of.rows.axis.frame)[row],
        )  # fmt: skip


def _longest_ms(found: _Stretches, shape: Shape) -> Floats:
    key = dense_codes(found.owner_cell[found.for_another], found.by[found.for_another])
    one = np.flatnonzero(found.for_another)[any_row_of(key)]
    longest_ms = np.zeros(shape.steps * shape.ranks)
    np.maximum.at(longest_ms, found.owner_cell[one], np.bincount(key, found.ms[found.for_another]))
    return longest_ms.reshape(shape)


def _pending_ms(of: Communication) -> Floats:
    start_s, end_s, _ = instants(of.rows.axis.frame)
    until_s = np.minimum(of.rows.needs.until_s, end_s)
    beside = ~of.rows.axis.frame[BLOCKS].to_numpy() & ~np.isnan(of.step) & ~np.isnan(until_s)
    cell = of.step[beside].astype(np.int64) * of.shape.ranks + of.column[beside]
    waited_ms = 1e3 * np.maximum(until_s - start_s, 0.0)[beside]
    return greatest_of_each(waited_ms, cell, of.shape.steps * of.shape.ranks).reshape(of.shape)


def _varying_ms(of: Communication, owner: Ints, by: Ints, step: Ints, ms: Floats) -> Floats:
    order = np.lexsort((step, by, owner))
    owner, by, step = owner[order], by[order], step[order]
    is_new_pair = (np.diff(owner, prepend=-1) != 0) | (np.diff(by, prepend=-1) != 0)
    is_new = is_new_pair | (np.diff(step, prepend=-1) != 0)
    in_step_ms = np.bincount(np.cumsum(is_new) - 1, ms[order])
    owner, pair = owner[is_new], np.cumsum(is_new_pair)[is_new]
    in_step_ms = in_step_ms[np.lexsort((-in_step_ms, pair))]
    first = np.flatnonzero(np.diff(pair, prepend=-1))
    n = np.diff(first, append=len(pair))
    middle = of.shape.steps // 2
    recurs = n > middle
    usual_ms = np.zeros(len(first))
    usual_ms[recurs] = in_step_ms[first[recurs] + middle]
    beyond_ms = np.maximum(in_step_ms - np.repeat(usual_ms, n), 0.0)
    return np.bincount(owner, beyond_ms, minlength=of.shape.ranks + 1).astype(np.float64)
