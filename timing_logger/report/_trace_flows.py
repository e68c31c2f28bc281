"""The arrows of a trace, between spans of different processes that are parts of one operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from timing_logger.analysis.collectives.matching import Instances, find_instances, is_root, with_bytes
from timing_logger.analysis.collectives.messages import find_messages, messages_and_groups
from timing_logger.analysis.collectives.problems import STATES, find_problems, states
from timing_logger.analysis.rows.analysis import COLUMNS_OF, ROW_OF_PROCESS, ByProcess, OfCommunication
from timing_logger.analysis.rows.arrays import Bools, Frame, Ints, coded_text, each_text
from timing_logger.analysis.rows.group_members import NONE
from timing_logger.analysis.rows.intervals import instants
from timing_logger.analysis.rows.operations import ALL_TO_ALL, FROM_ROOT, TO_ROOT
from timing_logger.analysis.rows.tables import in_one_table, opened
from timing_logger.reading.named_ranks import stated_world_size
from timing_logger.report._trace_rows import TraceProcess, rows_by_process


class Flows(NamedTuple):
    """The ends of the arrows of one process: where they begin, one entry per row, and where they end.

    An arrow is drawn from a span to a mark at the end of another. Perfetto draws none to a span that began
    earlier than the one that it comes from, as a receive mostly did.

    Attributes:
        row: the position of the row among those of its process.
        number: the number of the arrow; all arrows that begin in one row share it.
        sender: the rank that the arrow comes from.
        comes_in: whether the arrow ends in the row, or begins there.
    """

    row: Ints
    number: Ints
    sender: Ints
    comes_in: Bools


FlowsOf: TypeAlias = "dict[TraceProcess, Flows]"

_HALF_A_NANOSECOND = 0.5e-9  # times of a trace are whole nanoseconds

_NONE, _NEVER = np.zeros(0, np.int64), np.zeros(0, np.bool_)
NO_FLOWS = Flows(_NONE, _NONE, _NONE, _NEVER)


def flows_in(frame: Frame, world_size: int | None) -> FlowsOf:
    """Find the arrows from who was waited for in a collective, and from each send to its receive.

    Args:
        frame: a table that ``opened`` returned.
        world_size: the number of ranks of the run; None if unknown.
    """
    return joined_flows([_flows_of_collectives(frame), _flows_of_messages(frame, world_size)])


def joined_flows(parts: Sequence[FlowsOf]) -> FlowsOf:
    """Join flows that were found in different rows; their numbers are made distinct."""
    found: dict[TraceProcess, list[Flows]] = {}
    first = 0
    for part in parts:
        for process, flows in part.items():
            found.setdefault(process, []).append(flows._replace(number=flows.number + first))
        first += 1 + max((int(flows.number.max(initial=NONE)) for flows in part.values()), default=NONE)
    return {
        process: Flows(*(np.concatenate(columns) for columns in zip(*several, strict=True)))
        for process, several in found.items()
    }


def _flows_of_collectives(frame: Frame) -> FlowsOf:
    """Lead arrows from the last to send in each collective to those that receive of it.

    Where all ranks send to all, the last to begin sends to the others; else the root does, or the last of the
    others to the root. Ranks may not disagree about the operation, and who is the root must be known. What
    the members of two groups (an intercommunicator) or neighbours send to each other is not.
    """
    parts = find_instances(frame)
    problems = find_problems(frame, parts)
    number, names = coded_text(frame, "group")
    in_one_group = ~each_text((number[parts.row], names), lambda name: "|" in name)
    of_one_operation = parts.for_parts(states(problems) != STATES.index("mismatched")) & in_one_group
    rooted = of_one_operation & parts.for_parts(problems == 0)
    root = is_root(frame, parts)
    to_all = of_one_operation & parts.is_one_of(ALL_TO_ALL)
    from_root, to_root = rooted & parts.is_one_of(FROM_ROOT), rooted & parts.is_one_of(TO_ROOT)
    sends = (to_all & with_bytes(frame, parts)) | (from_root & root) | (to_root & ~root)
    receives = to_all | (from_root & ~root) | (to_root & root)
    sender = _last(frame, parts, sends)[receives]
    return _arrows(frame, sender[sender != NONE], parts.row[receives][sender != NONE])


def _last(frame: Frame, parts: Instances, among: Bools) -> Ints:
    """Return for each part the row that began last ``among`` those of its instance; ``NONE`` without one."""
    start_s, end_s, _ = instants(frame)
    known = np.flatnonzero(among & ~np.isnan(start_s[parts.row]) & ~np.isnan(end_s[parts.row]))
    position = np.repeat(np.arange(len(parts.first)), parts.n_parts)
    in_order = known[np.lexsort((start_s[parts.row[known]], position[known]))]
    last = np.full(len(parts.first), NONE)
    last[position[in_order]] = parts.row[in_order]
    return parts.for_parts(last)


def _flows_of_messages(frame: Frame, world_size: int | None) -> FlowsOf:
    return _arrows(frame, *find_messages(frame, world_size, exchanges=True))


def _arrows(frame: Frame, sender: Ints, receiver: Ints) -> FlowsOf:
    """Lead an arrow from each row of ``sender`` to that of ``receiver``.

    There is none from a row to itself, nor where an end is missing, nor back in time, as where the clocks of
    the two are farther apart than their rows.
    """
    start_s, end_s, _ = instants(frame)
    known = ~np.isnan(end_s[sender]) & ~np.isnan(start_s[receiver]) & (sender != receiver)
    forward = known & (end_s[receiver] - start_s[sender] > _HALF_A_NANOSECOND)
    sender, receiver = sender[forward], receiver[forward]
    begins, number = np.unique(sender, return_inverse=True)
    rank = frame["rank"].to_numpy().astype(np.int64)
    row = np.concatenate([begins, receiver])
    ends = Flows(
        row=_rows_of_processes(frame)[row],
        number=np.concatenate([np.arange(len(begins)), number]),
        sender=rank[np.concatenate([begins, sender])],
        comes_in=np.arange(len(row)) >= len(begins),
    )
    return {
        process: Flows._make(column[here] for column in ends)
        for process, here in rows_by_process(frame.select(TraceProcess._fields)[row])
    }


def _rows_of_processes(frame: Frame) -> Ints:
    """Return the position of each row among those of its process."""
    if ROW_OF_PROCESS in frame.columns:
        return frame[ROW_OF_PROCESS].to_numpy().astype(np.int64)
    position = np.zeros(len(frame), np.int64)
    for _, rows in rows_by_process(frame):
        position[rows] = np.arange(len(position[rows]))
    return position


# -- from parts --------------------------------------------------------------------------------------


def _collectives(timings: pd.DataFrame) -> FlowsOf:
    return _flows_of_collectives(opened(timings))


def _numbered_messages(timings: pd.DataFrame) -> pd.DataFrame:
    position = _rows_of_processes(opened(timings))
    numbered: pd.DataFrame = messages_and_groups(timings.assign(**{ROW_OF_PROCESS: position}))
    numbered.attrs = timings.attrs
    return numbered


def _messages(tables: Sequence[pd.DataFrame]) -> FlowsOf:
    timings = in_one_table(tables)
    return _flows_of_messages(opened(timings), stated_world_size(timings.attrs["files"]))


FLOWS_OF_COLLECTIVES = OfCommunication((*COLUMNS_OF["match_collectives"], ROW_OF_PROCESS), _collectives)
"""The analysis that finds the arrows of collectives."""

FLOWS_OF_MESSAGES = ByProcess(COLUMNS_OF["waits"], _numbered_messages, _messages)
"""The analysis that finds the arrows of messages: a part holds the rows of messages."""
