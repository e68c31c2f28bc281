"""Write a timeline of all ranks for https://ui.perfetto.dev, or chrome://tracing."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
from narwhals.typing import IntoDataFrame

from timing_logger.analysis.group_members import stated_world_size
from timing_logger.analysis.tables import Ints, opened
from timing_logger.reading.atomic_files import draft_of
from timing_logger.report._trace_counters import Counters, bytes_in_flight
from timing_logger.report._trace_flows import Flows, find_flows
from timing_logger.report._trace_json import counter_events, name_events, row_events
from timing_logger.report._trace_lanes import Lanes, assign_lanes
from timing_logger.report._trace_rows import TraceRows, process_names, trace_rows

_CHUNK = 2**16
_open_compressed = cast("Callable[..., IO[str]]", partial(gzip.open, compresslevel=4))


class TraceCounts(NamedTuple):
    """The content of a trace.

    Attributes:
        processes: the number of ranks, or of their incarnations if there are several.
        lanes: the number of lines of spans, of all processes.
        spans: the number of rows with a start and an end.
        instants: the number of rows without an end (``unresolved``), marked at their start.
        flows: the number of arrows, one fewer than the parts of each collective or message.
        counters: the number of changes of the bytes in flight.
        unplaced: the number of rows without a start, which no trace can show.
    """

    processes: int
    lanes: int
    spans: int
    instants: int
    flows: int
    counters: int
    unplaced: int


def write_trace(
    timings: IntoDataFrame,
    path: str | os.PathLike[str],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> TraceCounts:
    """Write a table of timings as a trace in the Trace Event Format (JSON).

    Each rank is a process. Each of its threads is a lane. Operations that a thread left running in the
    background, and work of a device for it, have lanes beside it; a span that would partly overlap another
    one is in a further lane (``MainThread #2``). Arrows join the parts of each collective that has a ``seq``,
    from the first rank to begin to the last, and each SEND with its RECV. A counter shows the bytes of
    communication in flight. The arguments of a span are the columns ``_trace_json.ARGUMENTS``, unless they
    are blank.

    Time begins with the first instant of the table: of ``start_s`` if the table has that column, which is one
    axis for all ranks, else of ``start_counter``, which is one axis for the ranks of a host.

    Args:
        timings: what ``read_timings`` returns, or a polars table with its columns. Hosts and labels are taken
            from ``attrs["files"]``, if it is there.
        path: the file, which is replaced if it exists; compressed if its name ends in ``.gz``.
        progress: called repeatedly with the number of events written so far and the total.

    Returns:
        The numbers of what was written.

    Raises:
        LogPathError: the file cannot be written, or must not be replaced: a folder, a device, a timing file.
            An existing file is then unchanged.
    """
    rows = trace_rows(opened(timings))
    files = getattr(timings, "attrs", {}).get("files", [])
    lanes, counters = assign_lanes(rows), bytes_in_flight(rows)
    flows = find_flows(rows, stated_world_size(files))
    rows = rows._replace(frame=opened(timings, as_recorded=True))  # the recorded values, for display only
    path = Path(path)
    open_file: Callable[..., IO[str]] = _open_compressed if path.suffix == ".gz" else open
    # A lone surrogate, which cannot be encoded, becomes a JSON escape.
    with draft_of(path) as draft, open_file(draft, "wt", encoding="utf-8", errors="backslashreplace") as file:
        _write(file, rows, _events(rows, lanes, flows, counters, process_names(rows, files), progress))
    n_spans, n_placed = int(rows.ended.sum()), int(rows.placed.sum())
    return TraceCounts(
        processes=len(rows.processes),
        lanes=len(lanes.lanes),
        spans=n_spans,
        instants=n_placed - n_spans,
        flows=flows.arrows,
        counters=len(counters.at_ns),
        unplaced=len(rows.placed) - n_placed,
    )


def _write(file: IO[str], rows: TraceRows, events: Iterable[list[str]]) -> None:
    about = {"origin_s": None if np.isnan(rows.origin_s) else rows.origin_s}
    file.write(f'{{"displayTimeUnit":"ns","otherData":{json.dumps(about)},"traceEvents":[')
    separator = "\n"
    for chunk in events:
        if chunk:
            file.write(separator + ",\n".join(chunk))
            separator = ",\n"
    file.write("\n]}\n")


def _events(
    rows: TraceRows,
    lanes: Lanes,
    flows: Flows,
    counters: Counters,
    names: list[str],
    progress: Callable[[int, int], None] | None,
) -> Iterator[list[str]]:
    """Yield a list of events for each chunk of rows, which bounds the memory in use."""
    pids = _pids(rows)
    yield list(name_events(lanes, names, pids))
    order = _in_order_of_start(rows)
    total, done = len(order) + len(counters.at_ns), 0
    spans = (row_events(rows, here, lanes, flows, pids) for here in _chunks(order))
    changes = (
        counter_events(Counters(*(column[here] for column in counters)), pids)
        for here in _chunks(np.arange(len(counters.at_ns)))
    )
    for chunk in chain(spans, changes):
        yield chunk
        done += len(chunk)
        if progress is not None:
            progress(done, total)


def _pids(rows: TraceRows) -> list[int]:
    """Return the process ids: the ranks if every rank has one process, else consecutive numbers."""
    ranks = [process.rank for process in rows.processes]
    return ranks if len(set(ranks)) == len(ranks) else list(range(len(ranks)))


def _in_order_of_start(rows: TraceRows) -> Ints:
    """Return the placed rows by start; of two that begin together the longer comes first, to enclose it."""
    order = np.lexsort((-rows.end_ns, rows.start_ns))
    return order[rows.placed[order]]


def _chunks(positions: Any) -> Iterator[Ints]:
    for first in range(0, len(positions), _CHUNK):
        yield positions[first : first + _CHUNK]
