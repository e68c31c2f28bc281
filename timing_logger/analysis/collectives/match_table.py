"""Match the rows of different ranks that are one collective, and check that no part is missing or differs."""

from __future__ import annotations

from typing import cast

import numpy as np
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.collectives.matching import Instances, find_instances
from timing_logger.analysis.collectives.problems import STATES, find_problems, reasons_for, states
from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.analysis.rows.intervals import instants
from timing_logger.analysis.rows.steps import steps_of, with_epoch
from timing_logger.analysis.rows.table_types import Frame
from timing_logger.analysis.rows.tables import new_column, opened, taken, text_column

_OF_THE_ROW = (
    "group", "group_size", "seq", "iteration", "layer_name", "phase", "rank", "incarnation", "elapsed_ms",
    "message_size_bytes",
)  # fmt: skip

_COLUMNS = (
    "instance", "group", "group_size", "seq", "iteration", "operation", "layer_name", "phase", "rank",
    "incarnation", "start_s", "end_s", "elapsed_ms", "message_size_bytes", "clock_uncertainty_s",
    "matched_by", "state", "why", "row",
)  # fmt: skip


def match_collectives(timings: IntoDataFrameT) -> IntoDataFrameT:
    """Match the parts that ranks have in the same collective.

    Parts belong together if they have the same group (name and size) and ``seq``. Parts without a
    ``seq`` are matched by the order in which they began in the group, counted from 0 in each step; where
    ranks have different numbers of them in a step, the order does not tell which belong together, and they
    are mismatched. So are parts whose iterations are more than 1 apart. Runs of ranks that were started
    several times are matched by their incarnation if some rank has all incarnations, else first with first,
    second with second. If more ranks carry the name of a group than it has members, several groups share the
    name, and their parts are mismatched too.

    ``WAIT`` and messages are no collectives. A non-blocking collective (``IALLREDUCE``) is matched like
    the blocking one.

    Args:
        timings: a table of timings, as ``read_timings`` returns.

    Returns:
        One row for each rank's part in each collective, sorted by instance, then rank.

    Columns:
        instance: number from 0, by group, then order (int64).
        group, group_size, seq, iteration, layer_name, phase, rank, incarnation, elapsed_ms,
        message_size_bytes: of the part, as in ``timings``.
        epoch: only where iterations restart.
        operation: the base operation; of an exchange ``ALLTOALLV`` if any rank calls it so.
        start_s, end_s, clock_uncertainty_s: of the part, as in ``timings``; if ``timings`` has no instants
            common to all ranks, ``start_counter`` and ``end_counter`` of the part, and NaN.
        matched_by: "seq" or "ordinal".
        state: "complete"; "incomplete" if some rank's part is missing or did not finish; or
            "mismatched" if the parts are not of one operation, or it cannot be told whether they are.
        why: what is wrong, in words; "" if complete.
        row: position in ``timings`` (int64).
    """
    frame = opened(timings, COLUMNS_OF["match_collectives"])
    parts = find_instances(frame)
    problems = find_problems(frame, parts)
    reasons, reason_of = reasons_for(frame, parts, problems)
    instants_of_rows = zip(("start_s", "end_s", "clock_uncertainty_s"), instants(frame), strict=True)
    table = identified(frame, parts).with_columns(
        *(new_column(frame, name, values[parts.row]) for name, values in instants_of_rows),
        text_column(frame, "state", STATES, states(problems)[parts.instance]),
        text_column(frame, "why", reasons, reason_of[parts.instance]),
    )
    return cast("IntoDataFrameT", table.select(*with_epoch(_COLUMNS, table.columns)).to_native())


def identified(frame: Frame, parts: Instances) -> Frame:
    """Return the columns that identify each part: its instance, operation, rank and position, and others."""
    return taken(frame, _OF_THE_ROW, parts.row).with_columns(
        *steps_of(frame).columns(frame, parts.row).values(),
        new_column(frame, "instance", parts.instance),
        text_column(frame, "operation", parts.operations, parts.operation),
        text_column(frame, "matched_by", ["ordinal", "seq"], parts.numbered.astype(np.int64)),
        new_column(frame, "row", parts.row),
    )
