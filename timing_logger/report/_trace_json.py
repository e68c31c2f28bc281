"""Write spans, instants, counters and names as Trace Event Format, which Chrome and Perfetto read.

Times in it are microseconds with up to three decimals, so no nanosecond is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.arrays import Bools, Floats, Ints
from timing_logger.analysis.rows.operations import is_communication, is_wait
from timing_logger.report._host_rates import Held, axis_in, host_tables
from timing_logger.report._trace_rows import BytesInFlight, Flows, TraceLanes, TraceRows
from timing_logger.schema.host_counters import COUNTERS
from timing_logger.schema.record import COLUMNS

if TYPE_CHECKING:
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


_DRAWN = {"timestamp", "operation", "elapsed_ms", "start_counter", "end_counter", "thread"}

ARGUMENTS = (*(name for name in COLUMNS if name not in _DRAWN), "metadata")
"""The columns shown with each span, unless they are blank: those that are not drawn."""

FIRST_TID = 1
"""The least number of a lane: Perfetto reserves 0 for the idle task."""


ARROW = "arrow"
"""The category of the marks in which arrows end."""


class TraceNumbers(NamedTuple):
    """The numbers of a process and of its first lane in the trace; no two lanes of a trace share one."""

    pid: int
    first_tid: int


def _json(value: object) -> str:
    r"""Return the JSON of ``value`` in a form that Perfetto parses correctly.

    Perfetto shows ``\u00e4`` as it stands, and takes the quote in ``"\\"`` for an escaped one.
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
    return text.replace(r"\\", r"\u005c")


class _Argument(dict[object, str]):
    """A cache from the values of one column to their text, since most values repeat."""

    MAX_VALUES = 4096

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def __missing__(self, value: object) -> str:
        if len(self) >= self.MAX_VALUES:
            self.clear()
        text = self[value] = _argument(self._name, value)
        return text

    def texts(self, values: Sequence[object]) -> Iterable[str]:
        if self._name == "metadata":  # mappings, which are not hashable
            return [_argument(self._name, value) for value in values]
        return map(self.__getitem__, values)


def _argument(name: str, value: object) -> str:
    is_blank = value is None or value is pd.NA or value != value or value == ""
    return "" if is_blank else f',"{name}":{_json(value)}'


class _Head(dict[tuple[int, str], str]):
    """A cache from lane and operation to the JSON prefix that all their events share."""

    def __init__(self, lines: TraceNumbers) -> None:
        super().__init__()
        self._lines = lines

    def __missing__(self, key: tuple[int, str]) -> str:
        lane, operation = key
        fields = {
            "pid": self._lines.pid,
            "tid": self._lines.first_tid + lane,
            "name": operation,
            "cat": _category(operation),
        }
        text = self[key] = _json(fields)[:-1]
        return text


def _category(operation: str) -> str:
    if is_wait(operation):
        return "wait"
    return "communication" if is_communication(operation) else "work"


def name_events(lines: TraceNumbers, name: str, order: int, lanes: TraceLanes) -> Iterator[str]:
    """Yield the events that set the names of a process and its lanes, and their order of display.

    Args:
        lines: the numbers that the process and its lanes have in the trace.
        name: the name of the process.
        order: the place of the process among the others.
        lanes: its lanes.
    """
    yield _named(lines.pid, 0, "process_name", "name", name)
    yield _named(lines.pid, 0, "process_sort_index", "sort_index", order)
    for tid, lane in enumerate(lanes.names, lines.first_tid):
        yield _named(lines.pid, tid, "thread_name", "name", lane)
        yield _named(lines.pid, tid, "thread_sort_index", "sort_index", tid)


def _named(pid: int, tid: int, what: str, key: str, value: str | int) -> str:
    return _json({"ph": "M", "pid": pid, "tid": tid, "name": what, "args": {key: value}})


def row_events(
    lines: TraceNumbers, rows: TraceRows, here: Ints, lanes: TraceLanes, flows: Sequence[str]
) -> list[str]:
    """Return the events of the rows at the positions ``here``: a span, or an instant if no end is known.

    Args:
        lines: the numbers that the process and its lanes have in the trace.
        rows: the rows of the process.
        here: positions of rows.
        lanes: the lanes of the process.
        flows: for each row of the process what :func:`flow_texts` says of it.
    """
    head = _Head(lines)
    columns = [name for name in ARGUMENTS if name in rows.recorded.columns]
    table = rows.recorded.select("operation", *columns)[here]
    arguments = zip(*(_Argument(name).texts(table[name].to_list()) for name in columns), strict=True)
    events = zip(
        lanes.of_row[here].tolist(), table["operation"].to_list(), rows.start_ns[here].tolist(),
        rows.end_ns[here].tolist(), rows.ended[here].tolist(), here.tolist(), arguments,
        strict=True,
    )  # fmt: skip
    return [
        f'{head[lane, operation]},"ts":{start_ns / 1000},'
        + (f'"ph":"X","dur":{(end_ns - start_ns) / 1000}{flows[row]}' if ended else '"ph":"i","s":"t"')
        + f',"args":{{{"".join(texts)[1:]}}}}}'
        for lane, operation, start_ns, end_ns, ended, row, texts in events
    ]


def flow_texts(flows: Flows, n_rows: int) -> list[str]:
    """Return for each row of a process what its event says of the arrow that begins there; "" for none."""
    texts = [""] * n_rows
    for row, number in _of_arrows(flows, ~flows.comes_in, flows.number):
        texts[row] = f',"bind_id":"{number:#x}","flow_out":true'
    return texts


def arrival_events(lines: TraceNumbers, rows: TraceRows, lanes: TraceLanes, flows: Flows) -> list[str]:
    """Return the events in which arrows end: marks without a duration at the ends of spans."""
    texts = []
    arrivals = _of_arrows(flows, flows.comes_in, flows.number, flows.sender)
    for row, number, sender in arrivals:
        place = f'"pid":{lines.pid},"tid":{lines.first_tid + int(lanes.of_row[row])}'
        texts.append(
            f'{{{place},"name":"from rank {sender}","cat":"{ARROW}","ts":{int(rows.end_ns[row]) / 1000},'
            f'"ph":"X","dur":0,"bind_id":"{number:#x}","flow_in":true}}'
        )
    return texts


def _of_arrows(flows: Flows, chosen: Bools, *columns: Ints) -> Iterator[tuple[int, ...]]:
    return zip(*(column[chosen].tolist() for column in (flows.row, *columns)), strict=True)


def counter_events(lines: TraceNumbers, counters: BytesInFlight) -> list[str]:
    """Return the events of the bytes in flight, as one track of the process."""
    head = f'{{"ph":"C","pid":{lines.pid},"name":"in flight","ts":'
    changes = zip(counters.at_ns.tolist(), counters.n_bytes.tolist(), strict=True)
    return [f'{head}{at_ns / 1000},"args":{{"bytes":{n_bytes}}}}}' for at_ns, n_bytes in changes]


def track_events(lines: TraceNumbers, track: Track) -> list[str]:
    """Return the events of a counter of the host, as one track of the process."""
    head = f'{{"ph":"C","pid":{lines.pid},"name":{json.dumps(track.name)},"ts":'
    values = zip(track.at_ns.tolist(), track.values.tolist(), strict=True)
    return [f'{head}{at_ns / 1000},"args":{{"value":{value:.6g}}}}}' for at_ns, value in values]
