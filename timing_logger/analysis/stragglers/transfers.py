"""Measure transfer times without waiting, by step, for each group or pair of ranks and size of message.

The last rank to arrive waits for nobody, so the transfer time of a collective is the least time that a rank
spent in it. The transfer time of a message is that of the side that came last.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.meetings import Meetings
from timing_logger.analysis.collectives.bandwidth import size_classes
from timing_logger.analysis.collectives.messages import Messages
from timing_logger.analysis.collectives.waits import transfer_times_ms, with_bytes
from timing_logger.analysis.grouping import any_row_of
from timing_logger.analysis.instants import durations_ms
from timing_logger.analysis.operations import ALL_TO_ALL, goes_on
from timing_logger.analysis.stragglers.waiting import Communication
from timing_logger.analysis.tables import Bools, Floats, Ints, coded_text, dense_codes, each_text, numbers

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
        mean_ms: steps x links, the mean time of one transfer in ms; NaN in steps without transfers.
        n: steps x links, the number of transfers.
    """

    links: list[Link]
    mean_ms: Floats
    n: Ints

    def takes_part(self, n_ranks: int) -> Bools:
        """Tell for each link and rank whether the rank takes part in the link (links x ranks)."""
        found = np.zeros((len(self.links), n_ranks), np.bool_)
        for i, link in enumerate(self.links):
            found[i, list(link.columns)] = True
        return found


def transfers_by_step(of: Communication) -> Transfers:
    """Compute the transfer times of messages, and of collectives in which every rank needs every other."""
    met, shape, frame = of.rows.met, of.shape, of.rows.met.frame
    first, ends, transfer_ms = _of_collectives(met)
    send, receive = _ended_alone(of)
    message_ms = np.minimum(*(numbers(frame, "elapsed_ms")[side] for side in (send, receive)))
    # Groups by their number among the communicators, pairs of ranks by one beyond these.
    pair = of.column[send] * shape.ranks + of.column[receive] + 1 + ends.max(initial=-1)
    row = np.concatenate([met.parts.row[first], send])
    elapsed_ms = np.concatenate([transfer_ms, message_ms])
    size_class = size_classes(numbers(frame, "message_size_bytes")[row])
    known = ~np.isnan(of.step[row]) & (elapsed_ms > 0) & (size_class != 0)
    operation = np.concatenate([met.parts.operation[first], np.full(len(send), -1)])
    group, _ = coded_text(frame, "group")
    link = dense_codes(*(c[known] for c in (operation, group[row], size_class, np.concatenate([ends, pair]))))
    example = np.flatnonzero(known)[any_row_of(link)]
    links = [_link(of, first, receive, int(i), float(size_class[i]), int(row[i])) for i in example]
    cell = of.step[row[known]].astype(np.int64) * len(links) + link
    n_cells = shape.steps * len(links)
    count = np.bincount(cell, minlength=n_cells).reshape(shape.steps, len(links))
    total_ms = np.bincount(cell, elapsed_ms[known], minlength=n_cells).reshape(count.shape)
    mean_ms = np.where(count > 0, total_ms / np.maximum(count, 1), np.nan)
    return Transfers(links, mean_ms, count)


def _ended_alone(of: Communication) -> Messages:
    """Return the messages whose times are known, leaving out those that ended together with another.

    Non-blocking messages that one ``Waitall`` waits for all end with it in their rows; only the last of them
    is known to have taken as long as its row says.
    """
    frame, messages = of.rows.met.frame, of.rows.met.messages
    both = np.concatenate(messages)
    elapsed_s = numbers(frame, "elapsed_ms")[both] / 1e3
    end_s = numbers(frame, "start_counter")[both] + elapsed_s
    together = dense_codes(of.column[both], np.rint(end_s * 1e7))
    in_background = each_text(coded_text(frame, "operation"), goes_on)[both]
    alone = (np.bincount(together)[together] == 1) | ~in_background | np.isnan(end_s)
    is_told = np.logical_and(*np.split(alone, 2))
    return Messages(*(side[is_told] for side in messages))


def _of_collectives(met: Meetings) -> tuple[Ints, Ints, Floats]:
    """Find the collectives in which every rank needs every other.

    Returns:
        For each of them the position of its first part, its communicator, and its transfer time in ms.
    """
    parts = met.parts
    if not len(parts.row):
        return parts.first, parts.first, np.zeros(0)
    is_whole = parts.for_parts(met.is_whole)
    first = parts.first[(is_whole & parts.is_one_of(ALL_TO_ALL))[parts.first]]
    elapsed_ms = durations_ms(met.frame)[parts.row]
    transfer_ms = transfer_times_ms(parts, elapsed_ms, with_bytes(met.frame, parts))[first]
    return first, parts.communicator[first], transfer_ms


def _link(of: Communication, first: Ints, receive: Ints, i: int, size_class: float, row: int) -> Link:
    """Return the link of the i-th transfer; transfers of collectives come before those of messages."""
    parts, column = of.rows.met.parts, of.column
    group = str(of.rows.met.frame["group"][row] or "")
    size = -1 if np.isnan(size_class) else int(size_class)
    if i >= len(first):
        return Link(MESSAGE, group, size, (int(column[row]), int(column[receive[i - len(first)]])))
    n_parts = parts.n_parts[np.searchsorted(parts.first, first[i])]
    members = column[parts.row[first[i] : first[i] + n_parts]]
    return Link(parts.operations[parts.operation[first[i]]], group, size, tuple(members.tolist()))
