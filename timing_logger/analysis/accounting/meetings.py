"""Join the rows of communication of all processes, and match those of different ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import narwhals as nw
import numpy as np
import pandas as pd

from timing_logger.analysis.accounting.lines import PROCESS, AccountLines, first_numbers, joined_lines
from timing_logger.analysis.accounting.part import PLACE, CommunicationPart
from timing_logger.analysis.collectives.matching import Instances, find_instances
from timing_logger.analysis.collectives.messages import Messages, find_messages
from timing_logger.analysis.collectives.problems import Problem, find_problems
from timing_logger.analysis.rows.analysis import RUN_OF_RANK
from timing_logger.analysis.rows.arrays import in_few_bytes
from timing_logger.analysis.rows.grouping import any_row_of
from timing_logger.analysis.rows.runs import runs_of
from timing_logger.analysis.rows.table_types import Bools, Floats, Frame, Ints
from timing_logger.analysis.rows.tables import new_column
from timing_logger.reading.sources import compact, joined


class Meetings(NamedTuple):
    """The rows of communication of a run, and what they are parts of.

    Attributes:
        frame: the table of rows, with the columns that ``part.map_communication`` adds; processes and lines
            are numbered throughout.
        parts: the collectives of which two ranks or more have rows that fit.
        is_whole: for each of these whether all ranks have.
        messages: the messages of which both rows are known.
    """

    frame: Frame
    parts: Instances
    is_whole: Bools
    messages: Messages


def joined_rows(parts: Sequence[CommunicationPart]) -> tuple[Frame, AccountLines]:
    """Join the rows and lines of all parts, and number their processes and lines throughout.

    Args:
        parts: as ``map_communication`` returned them, in ascending order of their processes; they lose their
            rows.
    """
    lines = joined_lines([part.lines for part in parts])
    if len(parts) == 1:
        return nw.from_native(parts[0].rows.pop(), eager_only=True), lines
    first = first_numbers([part.lines for part in parts])
    # Of other libraries than pandas all rows are one part.
    tables = (compact(cast("pd.DataFrame", part.rows.pop())) for part in parts)
    moved = [
        {str(name): small[name] + first[name][i] if name in first else small[name] for name in small}
        for i, small in enumerate(tables)
    ]
    return nw.from_native(joined(moved, list(moved[0])), eager_only=True), lines


def met(rows: Frame, lines: AccountLines, step: Floats | None, world_size: int | None) -> Meetings:
    """Match the rows of communication.

    Args:
        rows: as :func:`joined_rows` returned them.
        lines: the lines of all processes.
        step: for each row the number of its step, by which collectives without a number are matched; NaN
            outside of any step. None to take the steps that the rows state.
        world_size: the number of ranks in the run; None if unknown.
    """
    one = any_row_of(lines.process)
    run_of = runs_of(lines.rank[one], lines.incarnation[one])
    frame = rows.with_columns(
        new_column(rows, RUN_OF_RANK, run_of[rows[PROCESS].to_numpy().astype(np.int64)])
    )
    found = find_instances(frame, step)
    problems = find_problems(frame, found)
    usable = ((problems & ~Problem.MISSING) == 0) & (found.n_parts >= 2)
    messages = find_messages(frame, world_size, exchanges=True)
    return Meetings(frame, _in_few_bytes(found.only(usable)), problems[usable] == 0, messages)


def _in_few_bytes(parts: Instances) -> Instances:
    return parts._replace(
        row=in_few_bytes(parts.row),
        instance=in_few_bytes(parts.instance),
        communicator=in_few_bytes(parts.communicator),
        rank=in_few_bytes(parts.rank),
        operation=in_few_bytes(parts.operation),
        step=in_few_bytes(parts.step),
    )


def steps_by_place(rows: Frame, steps: Ints, n_steps: Ints) -> Floats:
    """Return the number of each row's step; NaN outside of any step, and for processes without.

    Args:
        rows: as :func:`joined_rows` returned them.
        steps: the numbers of the steps of all processes, in the order of these.
        n_steps: for each process the number of its steps.
    """
    process, place = (rows[name].to_numpy().astype(np.int64) for name in (PROCESS, PLACE))
    first = np.cumsum(n_steps) - n_steps
    inside = (place >= 0) & (place < n_steps[process])
    found = np.full(len(place), np.nan)
    found[inside] = steps[(first[process] + place)[inside]]
    return found
