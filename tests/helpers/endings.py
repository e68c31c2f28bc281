"""Makes the last rows and the last words of a run that stood still, without files or sidecars.

Clocks of ranks begin at Unix time 0, so that counters and Unix time in s are the same numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from timing_logger.analysis.hangs.open_calls import Ending, ending_of
from timing_logger.analysis.hangs.sidecar_state import LastWords, Progress
from timing_logger.analysis.rows.analysis import EARLIER_IN_STEP
from timing_logger.schema.record import NS_PER_S
from timing_logger.schema.sidecar import OpenCallInfo

WORLD = "MPI_COMM_WORLD"
END_S = 200.0
"""When the sidecars were last refreshed."""


def row(rank: int, operation: str = "ALLREDUCE", began_s: float = 100.0, **fields: Any) -> dict[str, Any]:
    """Return a row as ``last_rows`` does: of a call that is open, unless ``end_counter`` is given."""
    plain = {
        "incarnation": 1, "thread": "MainThread", "layer_name": "fc", "group": WORLD, "clock": "host",
        "iteration": 5.0, "epoch": 0.0, "group_size": 4.0, "seq": 10.0, "peer": math.nan,
        "message_size_bytes": 64.0, "end_counter": math.nan, EARLIER_IN_STEP: 0,
    }  # fmt: skip
    status = "ok" if "end_counter" in fields else "inflight"
    return {
        "rank": rank,
        **plain,
        "operation": operation,
        "start_counter": began_s,
        "status": status,
        **fields,
    }


def ended(rank: int, operation: str = "ALLREDUCE", began_s: float = 90.0, **fields: Any) -> dict[str, Any]:
    """Return the row of a call that lasted for a second."""
    return row(rank, operation, began_s, **{"end_counter": began_s + 1, "seq": 9.0, **fields})


def rows(*of: dict[str, Any]) -> pd.DataFrame:
    """Return rows as ``last_rows`` does."""
    whole = ("rank", "incarnation", EARLIER_IN_STEP)
    texts = ("thread", "operation", "layer_name", "group", "status", "clock")
    kinds = {name: object if name in texts else np.int64 if name in whole else np.float64 for name in row(0)}
    assert all(one.keys() == kinds.keys() for one in of), "each row has each column"
    return pd.DataFrame(
        {name: pd.Series([one[name] for one in of], dtype=kind) for name, kind in kinds.items()}
    )


def words(rank: int, **fields: Any) -> LastWords:
    """Return the last words of a rank that did not close, and that is idle since 100 s before the end."""
    plain = {
        "closed": False, "updated_ns": ns(END_S), "offset_ns": 0, "progressed_counter_ns": ns(100.0),
        "has_heartbeat": True,
    }  # fmt: skip
    return LastWords(**{"rank": rank, "incarnation": 1, **plain, **fields})


def ns(at_s: float) -> int:
    """Return a time in ns."""
    return round(at_s * NS_PER_S)


def counts(issued: int, completed: int, group: str = WORLD, size: int | None = 4) -> dict[str, Any]:
    """Return the field ``progress`` of last words."""
    return {"progress": {(group, size): Progress(issued, completed)}}


def call(operation: str = "ALLREDUCE", began_s: float | None = 100.0, **fields: Any) -> OpenCallInfo:
    """Return an open call as a sidecar tells of it."""
    start_ns = None if began_s is None else ns(began_s)
    plain = OpenCallInfo("MainThread", operation, "fc", 5, 0, WORLD, 4, 10, None, 64, start_ns)
    return plain._replace(**fields)


def ending(*of: dict[str, Any], said: tuple[LastWords, ...] | None = None, n_ranks: int = 4) -> Ending:
    """Return the end of a run with these rows, by default with the last words of ``n_ranks`` idle ranks."""
    told = tuple(words(rank) for rank in range(n_ranks)) if said is None else said
    return ending_of(rows(*of), {one.rank: one for one in told})
