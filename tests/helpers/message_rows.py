"""Rows of sends and receives."""

from __future__ import annotations

from typing import Any

import pandas as pd
from rank_tables import aligned, table
from timing_files import record

from timing_logger.schema.record import Record


def send(at_ms: float, elapsed_ms: float | None = 1.0, operation: str = "SEND", **fields: Any) -> Record:
    return record(operation, 1 + at_ms / 1e3, elapsed_ms, **{"group_size": 2, "seq": 0, **fields})


def receive(at_ms: float, elapsed_ms: float | None = 1.0, operation: str = "RECV", **fields: Any) -> Record:
    return send(at_ms, elapsed_ms, operation, **fields)


def one_message(sent: Record, received: Record, uncertainty_s: float = 0.0) -> pd.DataFrame:
    """From rank 0 to rank 1."""
    return aligned(table([sent._replace(peer=1)], [received._replace(peer=0)]), uncertainty_s)
