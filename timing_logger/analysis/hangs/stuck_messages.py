"""Find messages, probes and waits that did not end, and whether the other side made its call."""

from __future__ import annotations

import numpy as np
import pandas as pd

from timing_logger.analysis.collectives.matching import communicators
from timing_logger.analysis.collectives.messages import find_messages
from timing_logger.analysis.hangs.open_calls import ADDED_COLUMNS, Ending, integer_or_none
from timing_logger.analysis.rows import operations
from timing_logger.analysis.rows.arrays import numbers
from timing_logger.analysis.rows.group_members import NONE, ranks_by_number
from timing_logger.analysis.rows.tables import opened
from timing_logger.results.run_end import StuckMessage


def stuck_messages(ending: Ending, world_size: int | None) -> list[StuckMessage]:
    """Find the messages, probes and waits that did not end, by rank, then the longest first.

    A ``WAIT`` for an operation that is open itself is left out. So is a non-blocking send that was received,
    even if its rank has not waited for it yet.

    Args:
        ending: the end of the run.
        world_size: the number of ranks in the run; None if unknown.
    """
    rows = ending.rows
    if not rows["is_open"].any():
        return []
    frame = opened(rows.drop(columns=ADDED_COLUMNS))
    peers = ranks_by_number(frame, numbers(frame, "peer"), communicators(frame), world_size)
    matched = find_messages(frame, world_size)
    partnered = {*matched.send.tolist(), *matched.receive.tolist()}
    is_received = ~rows["is_open"].to_numpy(bool)[matched.receive]
    received = {*matched.send[is_received].tolist()}
    found = [
        _message(ending, row, int(peers[row]), has_partner=row in partnered)
        for row in np.flatnonzero(rows["is_open"]).tolist()
        if _is_told_here(rows, row) and row not in received
    ]
    return sorted(found, key=lambda one: (one.rank, -(one.since_s or 0.0)))


def _is_told_here(rows: pd.DataFrame, row: int) -> bool:
    name = rows["operation"].iloc[row]
    if operations.is_wait(name):
        return not _waits_for_an_open_call(rows, row)
    is_message = operations.is_communication(name) and not operations.is_collective(name)
    return is_message or operations.base_operation(name) in operations.PROBES


def _waits_for_an_open_call(rows: pd.DataFrame, row: int) -> bool:
    """Tell whether this row waits for another open call of its rank."""
    this = rows.iloc[row]
    same_seq = rows["seq"].isna() if np.isnan(this["seq"]) else rows["seq"] == this["seq"]
    same_call = rows["is_open"] & (rows["rank"] == this["rank"]) & (rows["group"] == this["group"]) & same_seq
    return not all(map(operations.is_wait, rows["operation"][same_call]))


def _is_waited_for(rows: pd.DataFrame, row: int) -> bool:
    """Tell whether a call of the same rank is blocked until this operation has ended."""
    this = rows.iloc[row]
    waits = rows[rows["is_open"] & (rows["rank"] == this["rank"]) & (rows["group"] == this["group"])]
    alike = waits[["seq", "peer"]].fillna(-1.0) == this[["seq", "peer"]].astype(float).fillna(-1.0)
    return bool(waits.loc[alike.all(axis=1), "operation"].map(operations.is_wait).any())


def _message(ending: Ending, row: int, peer: int, *, has_partner: bool) -> StuckMessage:
    call = ending.rows.iloc[row]
    return StuckMessage(
        rank=int(call["rank"]),
        operation=str(call["operation"]),
        group=str(call["group"]),
        seq=integer_or_none(call["seq"]),
        thread=str(call["thread"]),
        iteration=integer_or_none(call["iteration"]),
        peer=None if peer == NONE else peer,
        has_partner=has_partner,
        since_s=ending.before_the_end_s(float(call["began_s"])),
        hangs=bool(call["hangs"]),
        in_background=operations.goes_on(str(call["operation"])) and not _is_waited_for(ending.rows, row),
    )
