"""How long transfers took, without waiting: by step, for each group or pair of ranks and size of message.

The last to arrive waits for nobody, so the least time that a rank spent in a collective is the transfer.
Of a message it is the time of the side that came last.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.collectives.bandwidth import size_classes
from timing_logger.analysis.collectives.meetings import Meetings, Shape
from timing_logger.analysis.collectives.messages import Messages, find_messages
from timing_logger.analysis.collectives.waits import transfer_times_ms
from timing_logger.analysis.grouping import any_row_of
from timing_logger.analysis.operations import ALL_TO_ALL, goes_on
from timing_logger.analysis.tables import Bools, Floats, Ints, coded_text, dense_codes, each_text, numbers

MESSAGE = "SEND"


class Link(NamedTuple):
    """What the same transfer is made over, again and again.

    Attributes:
        operation: a base operation; ``SEND`` for messages.
        group: its name.
        size_class_bytes: the least power of two that is no less than the bytes of a message; -1 if unknown.
        columns: of the ranks that take part, among those of the run; of a message the two ends.
    """

    operation: str
    group: str
    size_class_bytes: int
    columns: tuple[int, ...]

    @property
    def family(self) -> tuple[str, int, int]:
        """Links of one family do the same between other ranks."""
        return self.operation, self.size_class_bytes, len(self.columns)


class Transfers(NamedTuple):
    """Transfers by step and link.

    Attributes:
        links: all of them.
        mean_ms: steps x links, of one transfer; NaN in steps without.
        n: steps x links, how many there were.
        has_messages: whether any message has a row on both sides, also if nothing tells how long it took.
    """

    links: list[Link]
    mean_ms: Floats
    n: Ints
    has_messages: bool = False

    def takes_part(self, n_ranks: int) -> Bools:
        """Links x ranks: whether the rank is one of the link's."""
        found = np.zeros((len(self.links), n_ranks), np.bool_)
        for i, link in enumerate(self.links):
            found[i, list(link.columns)] = True
        return found


def transfers_by_step(met: Meetings, shape: Shape, world_size: int | None) -> Transfers:
    """The transfers of collectives in which everybody needs everybody, and of messages."""
    first, ends, transfer_ms = _of_collectives(met)
    messages = find_messages(met.frame, world_size)
    send, receive = _ended_alone(met, messages)
    message_ms = np.minimum(*(numbers(met.frame, "elapsed_ms")[side] for side in (send, receive)))
    # Groups by their number among the communicators, pairs of ranks by one beyond these.
    pair = met.column[send] * shape.ranks + met.column[receive] + 1 + ends.max(initial=-1)
    row = np.concatenate([met.parts.row[first], send])
    elapsed_ms = np.concatenate([transfer_ms, message_ms])
    size_class = size_classes(numbers(met.frame, "message_size_bytes")[row])
    known = ~np.isnan(met.step[row]) & (elapsed_ms > 0) & (size_class != 0)
    operation = np.concatenate([met.parts.operation[first], np.full(len(send), -1)])
    group, _ = coded_text(met.frame, "group")
    link = dense_codes(*(c[known] for c in (operation, group[row], size_class, np.concatenate([ends, pair]))))
    example = np.flatnonzero(known)[any_row_of(link)]
    links = [_link(met, first, receive, int(i), float(size_class[i]), int(row[i])) for i in example]
    cell = met.step[row[known]].astype(np.int64) * len(links) + link
    n_cells = shape.steps * len(links)
    count = np.bincount(cell, minlength=n_cells).reshape(shape.steps, len(links))
    total_ms = np.bincount(cell, elapsed_ms[known], minlength=n_cells).reshape(count.shape)
    mean_ms = np.where(count > 0, total_ms / np.maximum(count, 1), np.nan)
    return Transfers(links, mean_ms, count, has_messages=len(messages.send) > 0)


def _ended_alone(met: Meetings, messages: Messages) -> Messages:
    """The messages of which no side ended together with another that its process had left in the background.

    Of those that one ``Waitall`` waited for, only the last is known to have taken as long as its row says.
    """
    both = np.concatenate(messages)
    elapsed_s = numbers(met.frame, "elapsed_ms")[both] / 1e3
    end_s = numbers(met.frame, "start_counter")[both] + elapsed_s
    together = dense_codes(met.column[both], np.rint(end_s * 1e7))
    in_background = each_text(coded_text(met.frame, "operation"), goes_on)[both]
    alone = (np.bincount(together)[together] == 1) | ~in_background | np.isnan(end_s)
    is_told = np.logical_and(*np.split(alone, 2))
    return Messages(*(side[is_told] for side in messages))


def _of_collectives(met: Meetings) -> tuple[Ints, Ints, Floats]:
    """Of each such collective where its parts begin, its communicator, and how long the transfer took."""
    parts = met.parts
    if not len(parts.row):
        return parts.first, parts.first, met.elapsed_ms
    first = parts.first[parts.is_one_of(ALL_TO_ALL)[parts.first]]
    transfer_ms = transfer_times_ms(parts, met.elapsed_ms, met.counts)[first]
    return first, parts.communicator[first], transfer_ms


def _link(met: Meetings, first: Ints, receive: Ints, i: int, size_class: float, row: int) -> Link:
    """That of the i-th transfer; those of collectives come before those of messages."""
    parts, column = met.parts, met.column
    group = str(met.frame["group"][row] or "")
    size = -1 if np.isnan(size_class) else int(size_class)
    if i >= len(first):
        return Link(MESSAGE, group, size, (int(column[row]), int(column[receive[i - len(first)]])))
    n_parts = parts.n_parts[np.searchsorted(parts.first, first[i])]
    members = column[parts.row[first[i] : first[i] + n_parts]]
    return Link(parts.operations[parts.operation[first[i]]], group, size, tuple(members.tolist()))
