"""The number of bytes of communication in flight in a process, over time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.collectives.matching import covers_issue_alone
from timing_logger.analysis.operations import is_communication
from timing_logger.analysis.tables import Ints, numbers
from timing_logger.report._trace_rows import TraceRows


class Counters(NamedTuple):
    """The changes of the number of bytes in flight: the instant in ns, and the new number."""

    at_ns: Ints
    n_bytes: Ints


def bytes_in_flight(rows: TraceRows) -> Counters:
    """Return the sum of ``message_size_bytes`` over the communication in progress, by time.

    Operations whose end is not known are left out.
    """
    size = numbers(rows.frame, "message_size_bytes")
    has_end = rows.ended & ~covers_issue_alone(rows.frame)
    row = np.flatnonzero(rows.operation_is(is_communication) & has_end & (size > 0))
    at_ns = np.concatenate([rows.start_ns[row], rows.end_ns[row]])
    change = np.concatenate([size[row], -size[row]]).astype(np.int64)
    order = np.argsort(at_ns, kind="stable")
    at_ns, n_bytes = at_ns[order], np.cumsum(change[order])
    last_of_instant = np.diff(at_ns, append=-1) != 0
    at_ns, n_bytes = at_ns[last_of_instant], n_bytes[last_of_instant]
    differs = np.diff(n_bytes, prepend=0) != 0
    return Counters(at_ns[differs], n_bytes[differs])
