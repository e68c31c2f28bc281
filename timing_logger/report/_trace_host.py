"""The tracks of a trace that show what the host of each process counted, once a second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from timing_logger.analysis.table_types import Floats, Ints
from timing_logger.host_counters import COUNTERS, Counter

if TYPE_CHECKING:
    import pandas as pd

    from timing_logger.report._trace_rows import Process

_AXES = (("start_s", "end_s"), ("start_counter", "end_counter"))
"""The columns that timings and counters have in common: the axis of all ranks, else that of the process."""


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
        self._by_process = {} if counters is None else dict(list(counters.groupby(["rank", "incarnation"])))

    def of(self, process: Process, columns: list[str], origin_s: float) -> Iterator[Track]:
        """Yield the tracks of a process, without counters that are unknown, or 0 all the time.

        Args:
            process: which.
            columns: the columns of the timings, which tell the axis of the trace.
            origin_s: where the trace begins on that axis.
        """
        table = self._by_process.get((process.rank, process.incarnation))
        axis = next((axis for axis in _AXES if axis[0] in columns), None)
        if table is None or axis is None:
            return
        start_s, end_s = (table[name].to_numpy(np.float64) for name in axis)
        for counter in COUNTERS:
            values = table[counter.name].to_numpy(np.float64)
            known = ~np.isnan(values) & (start_s < end_s) & (origin_s < end_s)
            if values[known].any():
                yield _track(counter, start_s[known] - origin_s, end_s[known] - origin_s, values[known])


def _track(counter: Counter, start_s: Floats, end_s: Floats, values: Floats) -> Track:
    if counter.kind == "level":  # which was read at the end of its interval
        return Track(counter.name, _ns(end_s), values)
    per_second = np.append(values / (end_s - start_s), 0.0)
    return Track(f"{counter.name}/s", _ns(np.append(start_s, end_s[-1])), per_second)


def _ns(seconds: Floats) -> Ints:
    return np.rint(seconds * 1e9).astype(np.int64)
