"""The tracks of a trace that show what the host of each process counted, once a second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from timing_logger.analysis.rows.table_types import Floats, Ints
from timing_logger.report._host_rates import Held, axis_in, host_tables
from timing_logger.schema.host_counters import COUNTERS

if TYPE_CHECKING:
    import pandas as pd

    from timing_logger.report._trace_rows import TraceProcess


class Track(NamedTuple):
    """One counter of one process.

    Attributes:
        name: the counter's name; of one that grows, with ``/s``, as its values are per second.
        at_ns: the instants from which each value holds, since the trace begins.
        values: the values.
    """

    name: str
    at_ns: Ints
    values: Floats


class HostTracks:
    """What hosts counted, by process.

    Args:
        counters: what ``read_host_counters`` returns; None if nothing is to be shown.
    """

    def __init__(self, counters: pd.DataFrame | None) -> None:
        self._by_process = {table.process: table for table in host_tables(counters)}

    def of(self, process: TraceProcess, columns: list[str], origin_s: float) -> Iterator[Track]:
        """Yield the tracks of a process, without counters that are unknown, or 0 all the time.

        Args:
            process: which.
            columns: the columns of the timings, which tell the axis of the trace.
            origin_s: where the trace begins on that axis.
        """
        table, axis = self._by_process.get((process.rank, process.incarnation)), axis_in(columns)
        if table is None or axis is None:
            return
        for counter in COUNTERS:
            held = table.held(counter.name, axis).until_after(origin_s)
            if held.values.any():
                yield _track(held, origin_s)


def _track(held: Held, origin_s: float) -> Track:
    since_s = held.start_s - origin_s
    if held.counter.kind == "level":
        return Track(held.counter.name, _ns(since_s), held.values)
    at_s = np.append(since_s, held.end_s[-1] - origin_s)  # where nothing is known any more
    return Track(f"{held.counter.name}/s", _ns(at_s), np.append(held.values, 0.0))


def _ns(seconds: Floats) -> Ints:
    return np.rint(seconds * 1e9).astype(np.int64)
