"""Sum an account by rank, and by pair of ranks: the figures that reports show."""

from __future__ import annotations

import narwhals as nw
import numpy as np
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.accounting.stretches import WHAT
from timing_logger.analysis.arrays import coded_text, dense_codes, each_text, numbers, processes_of
from timing_logger.analysis.grouping import any_row_of, ordered_sums
from timing_logger.analysis.table_types import Frame, Schema
from timing_logger.analysis.tables import like, nullable_integers, opened, taken

PARTS = {what: f"{what.replace(' ', '_')}_ms" for what in WHAT}
"""The parts of a rank's wall time, and the columns of :func:`summarize_account` that have them."""

_WAITING = "waiting"
_PROCESS = ("rank", "incarnation")
_RANKS: Schema = {
    **dict.fromkeys(_PROCESS, nw.Int64), "wall_ms": nw.Float64, **dict.fromkeys(PARTS.values(), nw.Float64)
}  # fmt: skip
_PAIRS: Schema = {**dict.fromkeys(_PROCESS, nw.Int64), "ms": nw.Float64, "share": nw.Float64}


def summarize_account(account: IntoDataFrameT) -> IntoDataFrameT:
    """Sum what each rank did with its time; of several threads that are blocked, the one that tells.

    Args:
        account: as :func:`timing_logger.analysis.account` returns.

    Returns:
        One row for each rank and incarnation that has an account, in ascending order.

    Columns:
        rank, incarnation.
        wall_ms: the wall time of the process, in ms: the sum of its parts.
        own_work_ms, not_timed_ms, transfer_ms, waiting_ms, not_matched_ms: the parts, as ``account`` tells
            them apart.
    """
    frame = _of_main_lines(account)
    code, names = coded_text(frame, "what")
    process = processes_of(frame)
    one = any_row_of(process)
    ms = numbers(frame, "ms")
    parts = []
    for what in WHAT:
        its = np.flatnonzero(code == (names.index(what) if what in names else -1))
        parts.append(ordered_sums(ms[its], process[its], len(one)))
    identity = [frame[name].to_numpy()[one] for name in _PROCESS]
    rows = zip(*(values.tolist() for values in (*identity, np.sum(parts, axis=0), *parts)), strict=True)
    return like(nw.from_native(account, eager_only=True), _RANKS, list(rows))


def waiting_by_rank(account: IntoDataFrameT) -> IntoDataFrameT:
    """Sum for whom each rank waited.

    Args:
        account: as :func:`timing_logger.analysis.account` returns.

    Returns:
        One row for each rank, incarnation and rank that it waited for, the longest first.

    Columns:
        rank, incarnation: who waited.
        waited_for: for which rank; NA for transfers between others. A rank waits for itself if one of its
            threads waits for another one.
        ms: for how long, in ms; over the rows of a rank it is ``waiting_ms`` of :func:`summarize_account`.
        share: ``ms`` as a fraction of all waiting of all ranks.
    """
    frame = _of_main_lines(account)
    frame = taken(frame, frame.columns, np.flatnonzero(each_text(coded_text(frame, "what"), _WAITING.__eq__)))
    whom = numbers(frame, "waited_for")
    pair = dense_codes(*(frame[name].to_numpy() for name in _PROCESS), whom)
    one = any_row_of(pair)
    ms = ordered_sums(numbers(frame, "ms"), pair, len(one))
    order = np.argsort(-ms, kind="stable")
    one, ms = one[order], ms[order]
    share = ms / ordered_sums(ms, np.zeros(len(ms), np.int64), 1)
    identity = [frame[name].to_numpy()[one] for name in _PROCESS]
    rows = zip(*(values.tolist() for values in (*identity, ms, share)), strict=True)
    library = nw.from_native(account, eager_only=True)
    table = nw.from_native(like(library, _PAIRS, list(rows)), eager_only=True)
    table = table.with_columns(nullable_integers(table, "waited_for", whom[one]))
    return table.select(*_PROCESS, "waited_for", "ms", "share").to_native()


def _of_main_lines(account: IntoDataFrameT) -> Frame:
    frame: Frame = opened(account, ())
    return taken(frame, frame.columns, np.flatnonzero(frame["is_main"].to_numpy()))
