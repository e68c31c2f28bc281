"""Account for all time of each rank: own work, code that is not timed, transfers, and waiting for whom.

The parts of a rank sum to its wall time. A rank that waits, waits for the last to arrive; where that one
waits, too, at the same instant, for whom that one waits. So each instant of waiting leads to a rank that did
something itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.accounting.part import AccountPart, map_account
from timing_logger.analysis.accounting.run import account_of
from timing_logger.analysis.accounting.summed import account_table
from timing_logger.analysis.analysis import ByProcess
from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.analysis.files import File
from timing_logger.analysis.tables import of_pandas, opened


def account(timings: IntoDataFrameT) -> IntoDataFrameT:
    """Account for all time of each rank.

    Each instant of a rank's line of control (its thread, or the thread that was blocked or worked longest) is
    of the innermost row that covers it. While the rank is blocked in communication, it waits until all ranks
    that it needs have come (as in :func:`timing_logger.analysis.waits`; in a message, until the other side
    has come); the rest is transfer. It waits for the last of them to come, and where that one itself waits at
    the same instant, for whom that one waits (compare Böhme et al., Identifying the root causes of wait
    states in large-scale parallel applications, 2010, of Scalasca). Clocks that were not measured are
    compared by the ends of collectives, which all ranks leave together.

    Args:
        timings: as ``read_timings`` returns.

    Returns:
        One row for each rank, incarnation, thread and what it did, the longest first.

    Columns:
        rank, incarnation. thread: that of the line. A process has several lines if several of its threads are
        blocked in
            communication; each has an account of its own.
        is_main: whether the line is the one that tells what the process did.
        what: ``own work``; ``not timed``: no row covers it; ``transfer``: in communication, after all had
            come; ``waiting``: for a rank that had not come; ``not matched``: in communication of which the
            rows of other ranks are missing or do not fit.
        operation: of the row: what the rank worked at, or what it waited or transferred in; "" if not timed.
        waited_for: the rank for which it waited; NA where it waited for a transfer between others, and where
            it did not wait.
        count: number of stretches of time.
        ms: their sum in ms; over the rows of a line it is the wall time of the process.
        share: ``ms`` as a fraction of that wall time, in [0, 1].
    """
    frame = opened(timings, COLUMNS_OF["account"])
    files = getattr(timings, "attrs", {}).get("files", [])
    part = map_account(frame)
    return account_table(account_of([part], files), frame)


# -- from parts --------------------------------------------------------------------------------------


class PartOfAccount(NamedTuple):
    """What the account of a run needs of some processes, and their files."""

    account: AccountPart
    files: list[File]


def _map(timings: pd.DataFrame) -> PartOfAccount:
    frame = opened(timings, COLUMNS_OF["account"])
    part = map_account(frame)
    return PartOfAccount(part, timings.attrs.get("files", []))


def _reduce(parts: Sequence[PartOfAccount]) -> pd.DataFrame:
    files = [file for part in parts for file in part.files]
    found: pd.DataFrame = account_table(account_of([part.account for part in parts], files), of_pandas())
    return found


ACCOUNT = ByProcess(COLUMNS_OF["account"], _map, _reduce, row_bytes=700)
"""The analysis :func:`account` in parts: a part holds the rows of communication, and sums of all others."""
