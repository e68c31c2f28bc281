"""Which rows of the timeline are parts of one collective, or the two sides of one message."""

from __future__ import annotations

import numpy as np
import pandas as pd

from timing_logger.analysis.collectives.matching import find_instances
from timing_logger.analysis.collectives.messages import find_messages
from timing_logger.analysis.rows.table_types import Frame, Ints
from timing_logger.analysis.rows.tables import opened
from timing_logger.report.html._packing import Packed, packed

LINKED_BY = ["group", "group_size", "seq", "peer"]
"""The columns by which rows are matched, besides rank, incarnation and operation."""

NOT_LINKED = -(2**31)
"""The entry of a row that is part of nothing."""


def linked(spans: pd.DataFrame, world_size: int | None) -> Ints:
    """Return for each row the number of the collective or message that it is part of; -1 for nothing.

    Rows without a ``seq`` are part of nothing: where rows are left out, their order says nothing.

    Args:
        spans: the rows that are drawn, with ``begin_s``.
        world_size: the number of ranks of the run; None if unknown.
    """
    number = np.full(len(spans), -1)
    numbered = np.flatnonzero(spans["seq"].notna())
    number[numbered] = _numbers(opened(_timings(spans, numbered)), world_size)
    return number


def packed_links(number: Ints) -> Packed:
    """Return for each row how much its number is above that of the row before that has one.

    Numbers are counted anew, in the order of the rows. Ranks mostly do the same again and again, so that
    these differences take little room.
    """
    of_row = np.flatnonzero(number >= 0)
    _, first, code = np.unique(number[of_row], return_index=True, return_inverse=True)
    steps = np.full(len(number), NOT_LINKED)
    steps[of_row] = np.diff(np.argsort(np.argsort(first))[code], prepend=0)
    return packed(steps, "int32")


def _timings(spans: pd.DataFrame, chosen: Ints) -> pd.DataFrame:
    names = ["rank", "incarnation", "operation", "iteration", "epoch", *LINKED_BY]
    rows: pd.DataFrame = spans[[*names, "begin_s"]].iloc[chosen].reset_index(drop=True)
    rows.columns = [*names, "start_counter"]
    return rows


def _numbers(frame: Frame, world_size: int | None) -> Ints:
    """Return the number of the collective or message of each row; -1 for a row that has no counterpart."""
    number = np.full(len(frame), -1)
    parts = find_instances(frame)
    if len(parts.row):
        least, most = (f.reduceat(parts.operation, parts.first) for f in (np.minimum, np.maximum))
        alike = parts.for_parts((least == most) & (parts.n_parts > 1))
        number[parts.row[alike]] = parts.instance[alike]
    messages = find_messages(frame, world_size)
    of_message = number.max(initial=-1) + 1 + np.arange(len(messages.send))
    number[messages.send], number[messages.receive] = of_message, of_message
    return number
