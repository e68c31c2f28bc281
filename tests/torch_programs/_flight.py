"""What torch's flight recorder and our logger each say about the same calls."""

from __future__ import annotations

import json
import time
from typing import Any

from torch._C._distributed_c10d import _dump_fr_trace_json

from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink

Dictionary = dict[str, Any]

COLUMNS = (
    "operation", "layer_name", "message_size_bytes", "start_ns", "end_ns", "group", "group_size", "seq",
    "peer", "status",
)  # fmt: skip

_KEPT = (
    "record_id", "process_group", "collective_seq_id", "op_id", "profiling_name", "input_sizes",
    "input_dtypes", "output_sizes", "output_dtypes", "retired",
)  # fmt: skip
_TO_SETTLE_S = 30.0


class BothRecorders:
    """Cuts what the two have recorded into parts.

    Args:
        rank: this process's.
    """

    def __init__(self, rank: int) -> None:
        self._sink = MemorySink()
        self.logger = TimingLogger(rank, None, sinks=[self._sink])
        self._entries_seen = 0
        self._rows_seen = 0

    def next_part(self) -> dict[str, list[Dictionary]]:
        """``rows`` and flight recorder ``entries`` since the last call."""
        wait_until_all_ended(self.logger)
        self.logger.flush()
        rows, entries = [as_dictionary(record) for record in self._sink.records], flight_entries()
        part = {"rows": rows[self._rows_seen :], "entries": entries[self._entries_seen :]}
        self._rows_seen, self._entries_seen = len(rows), len(entries)
        return part


def wait_until_all_ended(logger: TimingLogger) -> None:
    """Who waits may go on a moment before callbacks have run, and before gloo has noted the end."""
    give_up_at = time.monotonic() + _TO_SETTLE_S
    running = logger._open_calls.running
    while running or not all(entry["retired"] for entry in flight_entries()):
        assert time.monotonic() < give_up_at, f"not ended: {running}"
        time.sleep(0.001)


def as_dictionary(record: Record) -> Dictionary:
    return {column: getattr(record, column) for column in COLUMNS}


def flight_entries() -> list[Dictionary]:
    """Everything in the flight recorder, the oldest first."""
    entries = json.loads(_dump_fr_trace_json()).get("entries", [])
    return [{key: entry[key] for key in _KEPT} for entry in entries]
