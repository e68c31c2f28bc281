"""The number of bytes of communication in flight in each process, over time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.collectives.matching import covers_issue_alone
from timing_logger.analysis.operations import is_communication
from timing_logger.analysis.tables import Ints, numbers
from timing_logger.report._trace_rows import TraceRows


class Counters(NamedTuple):
    """The changes of the number of bytes in flight: the process, the instant in ns, and the new number."""

    process: Ints
    at_ns: Ints
    n_bytes: Ints


def bytes_in_flight(rows: TraceRows) -> Counters:
    """Return the sum of ``message_size_bytes`` over the communication in progress, by process, then time.

    Operations whose end is not known are left out.
    """
    size = numbers(rows.frame, "message_size_bytes")
    has_end = rows.ended & ~covers_issue_alone(rows.frame)
    row = np.flatnonzero(rows.operation_is(is_communication) & has_end & (size > 0))
    process = np.tile(rows.process[row], 2)
    at_ns = np.concatenate([rows.start_ns[row], rows.end_ns[row]])
    change = np.concatenate([size[row], -size[row]]).astype(np.int64)
    order = np.lexsort((at_ns, process))
    process, at_ns = process[order], at_ns[order]
    n_bytes = np.cumsum(change[order])  # returns to 0 when the last operation of a process ends
    return _when_they_differ(process, at_ns, n_bytes)


def _when_they_differ(process: Ints, at_ns: Ints, n_bytes: Ints) -> Counters:
    last_of_instant = np.ones(len(process), bool)
    last_of_instant[:-1] = (np.diff(process) != 0) | (np.diff(at_ns) != 0)
    process, at_ns, n_bytes = process[last_of_instant], at_ns[last_of_instant], n_bytes[last_of_instant]
    differs = (np.diff(n_bytes, prepend=0) != 0) | (np.diff(process, prepend=-1) != 0)
    return Counters(process[differs], at_ns[differs], n_bytes[differs])
