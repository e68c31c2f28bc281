"""The arrows of a trace, between spans of different processes that are parts of one operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from timing_logger.analysis.analysis import Analysis
from timing_logger.analysis.collectives.matching import find_instances
from timing_logger.analysis.collectives.messages import find_messages, messages_and_groups
from timing_logger.analysis.collectives.problems import STATES, find_problems, states
from timing_logger.analysis.columns import COLUMNS_OF, ROW_OF_PROCESS
from timing_logger.analysis.group_members import NONE
from timing_logger.analysis.instants import instants
from timing_logger.analysis.part_tables import in_one_table
from timing_logger.analysis.tables import Bools, Frame, Ints, opened
from timing_logger.reading.lacking import stated_world_size
from timing_logger.report._trace_rows import Process, rows_by_process

if TYPE_CHECKING:
    import pandas as pd


class Flows(NamedTuple):
    """The flows of one process, one entry for each row that is part of one.

    Attributes:
        row: the position of the row among those of its process.
        number: the number of the flow that the row belongs to.
        comes_in: true for all spans of a flow but the first to begin.
        goes_out: true for all spans of a flow but the last to begin.
    """

    row: Ints
    number: Ints
    comes_in: Bools
    goes_out: Bools


FlowsOf: TypeAlias = "dict[Process, Flows]"

_NONE, _NEVER = np.zeros(0, np.int64), np.zeros(0, np.bool_)
NO_FLOWS = Flows(_NONE, _NONE, _NEVER, _NEVER)


def flows_in(frame: Frame, world_size: int | None) -> FlowsOf:
    """Join the parts of each collective in the order in which ranks begin, and each SEND with its RECV.

    Args:
        frame: a table that ``opened`` returned.
        world_size: the number of ranks of the run; None if unknown.
    """
    return joined_flows([_flows_of_collectives(frame), _flows_of_messages(frame, world_size)])


def joined_flows(parts: Sequence[FlowsOf]) -> FlowsOf:
    """Join flows that were found in different rows; their numbers are made distinct."""
    found: dict[Process, list[Flows]] = {}
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
    """Join the parts of each collective, unless ranks disagree about the operation."""
    parts = find_instances(frame)
    state = states(find_problems(frame, parts))[parts.instance]
    of_one_operation = state != STATES.index("mismatched")
    return _chained(frame, parts.row[of_one_operation], parts.instance[of_one_operation])


def _flows_of_messages(frame: Frame, world_size: int | None) -> FlowsOf:
    send, receive = find_messages(frame, world_size)
    return _chained(frame, np.concatenate([send, receive]), np.tile(np.arange(len(send)), 2))


def _chained(frame: Frame, row: Ints, number: Ints) -> FlowsOf:
    """Chain the rows of each number in the order in which they began; a row without an end has no arrow."""
    start_s, end_s, _ = instants(frame)
    ended = ~np.isnan(start_s[row]) & ~np.isnan(end_s[row])
    row, number = row[ended], number[ended]
    order = np.lexsort((start_s[row], number))
    row, number = row[order], number[order]
    same_as_before = np.diff(number, prepend=NONE - 1) == 0
    same_as_next = np.append(same_as_before[1:], False)[: len(number)]
    joined = same_as_before | same_as_next
    whole = Flows(row[joined], number[joined], same_as_before[joined], same_as_next[joined])
    position = _rows_of_processes(frame)[whole.row]
    whole = whole._replace(row=position)
    return {
        process: Flows._make(column[here] for column in whole)
        for process, here in rows_by_process(frame.select(Process._fields)[row[joined]])
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


FLOWS_OF_COLLECTIVES = Analysis(
    (*COLUMNS_OF["match_collectives"], ROW_OF_PROCESS), _collectives, joined_flows, "collective"
)
"""The analysis that joins the parts of collectives: a part holds four small numbers for each of them."""

FLOWS_OF_MESSAGES = Analysis(COLUMNS_OF["waits"], _numbered_messages, _messages)
"""The analysis that joins sends with receives: a part holds the rows of messages."""
