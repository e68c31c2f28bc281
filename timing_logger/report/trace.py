"""Write a timeline of all ranks for https://ui.perfetto.dev, or chrome://tracing.

It is written process by process, from batches of files, so that only the rows of one batch are in memory
together. The arrows between processes, and the instant at which the axis begins, are found first.
"""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, NamedTuple, cast

import numpy as np
from narwhals.typing import IntoDataFrame

from timing_logger.analysis.rows.arrays import Frame, Ints
from timing_logger.analysis.rows.files import File, unread_files
from timing_logger.analysis.rows.tables import opened
from timing_logger.engine.rows import Query
from timing_logger.engine.run import run
from timing_logger.process.shared_files import created
from timing_logger.reading.atomic_files import draft_of
from timing_logger.reading.named_ranks import stated_world_size
from timing_logger.report._trace_json import (
    FIRST_TID,
    HostTracks,
    TraceNumbers,
    arrival_events,
    counter_events,
    flow_texts,
    name_events,
    row_events,
    track_events,
)
from timing_logger.report._trace_rows import (
    FLOWS_OF_COLLECTIVES,
    FLOWS_OF_MESSAGES,
    NO_FLOWS,
    PROCESSES,
    BytesInFlight,
    Flows,
    FlowsOf,
    Traced,
    TraceRows,
    assign_lanes,
    bytes_in_flight,
    flows_in,
    joined_flows,
    origin_of,
    process_names,
    rows_by_process,
    traced_in,
)

if TYPE_CHECKING:
    import pandas as pd

_CHUNK = 2**16

Progress = Callable[[int, int], None]


class TraceCounts(NamedTuple):
    """The content of a trace.

    Attributes:
        processes: the number of ranks, or of their incarnations if there are several.
        lanes: the number of lines of spans, of all processes.
        spans: the number of rows with a start and an end.
        instants: the number of rows without an end (``unresolved``), marked at their start.
        flows: the number of arrows.
        counters: the number of values of counters: bytes in flight, and what the host counted.
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
    host: pd.DataFrame | None = None,
    progress: Progress | None = None,
) -> TraceCounts:
    """Write a table of timings as a trace in the Trace Event Format (JSON).

    Each rank is a process. Each of its threads is a lane. Operations that a thread left running in the
    background, and work of a device for it, have lanes beside it; a span that would partly overlap another
    one is in a further lane (``MainThread #2``). Arrows lead from each send to the end of its receive, and in
    a collective from the last rank to begin, or the root, to the ends of those that needed it; none where no
    source told when the rows were, which are then drawn one after the other. A counter
    shows the bytes of communication in flight, and others show what the host counted. The arguments of a
    span are the columns ``_trace_json.ARGUMENTS``, unless they are blank.

    Time begins with the first instant of the table: of ``start_s`` if the table has that column, which is one
    axis for all ranks, else of ``start_counter``, which is one axis for the ranks of a host.

    Args:
        timings: what ``read_timings`` returns, or a polars table with its columns. Hosts and labels are taken
            from ``attrs["files"]``, if it is there.
        path: the file, which is replaced if it exists; compressed if its name ends in ``.gz``.
        host: what ``read_host_counters`` returns, for tracks of these counters.
        progress: called repeatedly with the number of rows written so far and the total.

    Returns:
        The numbers of what was written.

    Raises:
        LogPathError: the file cannot be written, or must not be replaced: a folder, a device, a timing file.
            An existing file is then unchanged.
    """
    files = getattr(timings, "attrs", {}).get("files", [])
    traced = traced_in(opened(timings, as_laid_out=True))
    flows = flows_in(opened(timings), stated_world_size(files))
    trace = _Trace(traced, flows, files, HostTracks(host))
    return trace.write(_by_process(timings), Path(path), progress)


def write_trace_of_files(
    query: Query,
    path: str | os.PathLike[str],
    *,
    host: pd.DataFrame | None = None,
    progress: Progress | None = None,
) -> TraceCounts:
    """Write the chosen rows of timing files as :func:`write_trace` does, however large the files are.

    Args:
        query: the files, with all columns, and the chosen rows.
        path, host, progress: as for :func:`write_trace`.

    Raises:
        ConfigurationError: one of the chosen ranks has no file.
        TooLargeError: neither memory nor the disk has room for the rows of collectives.
        LogPathError: as for :func:`write_trace`.
    """
    traced, *flows = run(query, PROCESSES, FLOWS_OF_COLLECTIVES, FLOWS_OF_MESSAGES).answers
    trace = _Trace(traced, joined_flows(flows), unread_files(query.files), HostTracks(host))
    tables = (table for batch in query.batches for table in _by_process(query.rows_of(batch)))
    return trace.write(tables, Path(path), progress)


def _by_process(timings: IntoDataFrame) -> Iterator[tuple[Frame, Frame]]:
    """Yield the rows of each process, to compute with and as they were recorded."""
    frame = opened(timings, as_laid_out=True)
    recorded = opened(timings, as_recorded=True, as_laid_out=True)
    for _, rows in rows_by_process(frame):
        yield frame[rows], recorded[rows]


class _Trace:
    """A trace whose processes and arrows are known, and whose rows come process by process.

    Args:
        traced: all processes, by rank and incarnation.
        flows: the arrows, by process.
        files: descriptions of the files, as in ``attrs["files"]``.
        host: what hosts counted.
    """

    def __init__(
        self, traced: Sequence[Traced], flows: FlowsOf, files: Sequence[File], host: HostTracks
    ) -> None:
        self._traced = traced
        self._flows, self._host = flows, host
        self._names = process_names(traced, files)
        self._origin_s = origin_of(traced)
        self._lanes = self._spans = self._placed = self._counters = 0

    def write(
        self, tables: Iterable[tuple[Frame, Frame]], path: Path, progress: Progress | None
    ) -> TraceCounts:
        """Write the trace.

        Args:
            tables: the rows of each process, to compute with and as recorded, in the order of ``traced``.
            path, progress: as for :func:`write_trace`.
        """
        about = {"origin_s": None if np.isnan(self._origin_s) else self._origin_s}
        with (
            draft_of(path) as draft,
            created(draft) as stored,
            _text_of(stored, is_compressed=path.suffix == ".gz") as file,
        ):
            file.write(f'{{"displayTimeUnit":"ns","otherData":{json.dumps(about)},"traceEvents":[')
            separator = "\n"
            for chunk in self._events(tables, progress or _unseen):
                if chunk:
                    file.write(separator + ",\n".join(chunk))
                    separator = ",\n"
            file.write("\n]}\n")
        return TraceCounts(
            processes=len(self._traced),
            lanes=self._lanes,
            spans=self._spans,
            instants=self._placed - self._spans,
            flows=sum(int(flows.comes_in.sum()) for flows in self._flows.values()),
            counters=self._counters,
            unplaced=self._n_rows - self._placed,
        )

    @property
    def _n_rows(self) -> int:
        return sum(one.n_rows for one in self._traced)

    def _events(self, tables: Iterable[tuple[Frame, Frame]], progress: Progress) -> Iterator[list[str]]:
        """Yield a list of events for each chunk of rows, which bounds the memory in use."""
        done, n_rows = 0, self._n_rows
        for number, (frame, recorded) in enumerate(tables):
            rows = TraceRows.of(frame, recorded, self._origin_s)
            lanes, lines = assign_lanes(rows), TraceNumbers(self._pid(number), FIRST_TID + self._lanes)
            self._lanes += len(lanes.names)
            yield list(name_events(lines, self._names[number], number, lanes))
            flows = self._flows.get(self._traced[number].process, NO_FLOWS)
            texts = flow_texts(flows, len(frame))
            for here in _chunks(_in_order_of_start(rows)):
                yield row_events(lines, rows, here, lanes, texts)
                progress(done + len(here), n_rows)
            for here in _chunks(np.arange(len(flows.row))):
                yield arrival_events(lines, rows, lanes, Flows._make(column[here] for column in flows))
            yield from self._counter_events(lines, bytes_in_flight(rows))
            for track in self._host.of(self._traced[number].process, frame.columns, self._origin_s):
                self._counters += len(track.at_ns)
                yield track_events(lines, track)
            self._spans += int(rows.ended.sum())
            self._placed += int(rows.placed.sum())
            done += len(frame)
        progress(done, n_rows)

    def _counter_events(self, lines: TraceNumbers, counters: BytesInFlight) -> Iterator[list[str]]:
        self._counters += len(counters.at_ns)
        for here in _chunks(np.arange(len(counters.at_ns))):
            yield counter_events(lines, BytesInFlight(*(column[here] for column in counters)))

    def _pid(self, number: int) -> int:
        """Return the process id: the rank if every rank has one process, else the process's number."""
        ranks = [one.process.rank for one in self._traced]
        return ranks[number] if len(set(ranks)) == len(ranks) else number


def _text_of(stored: BinaryIO, *, is_compressed: bool) -> IO[str]:
    """Return what writes text to a file. A lone surrogate, which cannot be encoded, becomes a JSON escape."""
    into = gzip.GzipFile(fileobj=stored, mode="wb", compresslevel=4) if is_compressed else stored
    return io.TextIOWrapper(cast("BinaryIO", into), encoding="utf-8", errors="backslashreplace")


def _unseen(done: int, total: int) -> None:
    """Take the progress of a trace that nobody watches."""


def _in_order_of_start(rows: TraceRows) -> Ints:
    """Return the placed rows by start; of two that begin together the longer comes first, to enclose it."""
    order = np.lexsort((-rows.end_ns, rows.start_ns))
    return order[rows.placed[order]]


def _chunks(positions: Ints) -> Iterator[Ints]:
    for first in range(0, len(positions), _CHUNK):
        yield positions[first : first + _CHUNK]
