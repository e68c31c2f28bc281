"""The arrows of a trace, between spans of different ranks that are parts of one operation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.collectives.instances import find_instances
from timing_logger.analysis.collectives.messages import find_messages
from timing_logger.analysis.collectives.problems import STATES, find_problems, states
from timing_logger.analysis.group_members import NONE
from timing_logger.analysis.tables import Bools, Frame, Ints
from timing_logger.report._trace_rows import TraceRows


class Flows(NamedTuple):
    """The flow of each row, one entry per row.

    Attributes:
        number: the number of the flow that the row belongs to, or ``NONE``.
        comes_in: true for all spans of a flow but the first to begin.
        goes_out: true for all spans of a flow but the last to begin.
    """

    number: Ints
    comes_in: Bools
    goes_out: Bools

    @property
    def arrows(self) -> int:
        return int(self.goes_out.sum())


def find_flows(rows: TraceRows, world_size: int | None) -> Flows:
    """Join the parts of each collective in the order in which ranks begin, and each SEND with its RECV.

    Args:
        world_size: the number of ranks of the run; None if unknown.
    """
    collective_row, instance = collective_parts(rows)
    message_row, message = message_parts(rows.frame, world_size)
    row = np.concatenate([collective_row, message_row])
    number = np.concatenate([instance, message + instance.max(initial=NONE) + 1])
    drawn = rows.ended[row]
    row, number = row[drawn], number[drawn]
    order = np.lexsort((rows.start_ns[row], number))
    return _chained(row[order], number[order], len(rows.placed))


def _chained(row: Ints, number: Ints, n_rows: int) -> Flows:
    same_as_before = np.diff(number, prepend=NONE - 1) == 0
    same_as_next = np.append(same_as_before[1:], False)[: len(number)]
    flows = Flows(np.full(n_rows, NONE), np.zeros(n_rows, bool), np.zeros(n_rows, bool))
    joined = same_as_before | same_as_next
    flows.number[row[joined]] = number[joined]
    flows.comes_in[row] = same_as_before
    flows.goes_out[row] = same_as_next
    return flows


def collective_parts(rows: TraceRows) -> tuple[Ints, Ints]:
    """Return the rows that are a rank's part in a collective, and the number of the instance of each.

    Collectives in which ranks disagree about the operation are left out.
    """
    parts = find_instances(rows.frame)
    state = states(find_problems(rows.frame, parts))[parts.instance]
    of_one_operation = state != STATES.index("mismatched")
    return parts.row[of_one_operation], parts.instance[of_one_operation]


def message_parts(frame: Frame, world_size: int | None) -> tuple[Ints, Ints]:
    """Return the rows of messages whose other side has a row, too, and the number of the message of each."""
    send, receive = find_messages(frame, world_size)
    return np.concatenate([send, receive]), np.tile(np.arange(len(send)), 2)
