"""Write spans, instants, counters and names as Trace Event Format, which Chrome and Perfetto read.

Times in it are microseconds with up to three decimals, so no nanosecond is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd

from timing_logger.analysis.group_members import NONE as NO_FLOW
from timing_logger.analysis.operations import is_communication, is_wait
from timing_logger.analysis.tables import Ints
from timing_logger.report._trace_counters import Counters
from timing_logger.report._trace_flows import Flows
from timing_logger.report._trace_lanes import Lanes
from timing_logger.report._trace_rows import TraceRows

ARGUMENTS = (
    "iteration", "epoch", "layer_name", "phase", "message_size_bytes", "group", "group_size", "seq", "peer",
    "status", "clock", "stream", "metadata",
)  # fmt: skip
"""The columns shown with each span, unless they are blank."""


def _json(value: Any) -> str:
    r"""Return the JSON of ``value`` in a form that Perfetto parses correctly.

    Perfetto shows ``\u00e4`` as it stands, and takes the quote in ``"\\"`` for an escaped one.
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
    return text.replace(r"\\", r"\u005c")


class _Argument(dict[Any, str]):
    """A cache from the values of one column to their text, since most values repeat."""

    MAX_VALUES = 4096

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def __missing__(self, value: Any) -> str:
        if len(self) >= self.MAX_VALUES:
            self.clear()
        text = self[value] = _argument(self._name, value)
        return text

    def texts(self, values: Sequence[Any]) -> Iterable[str]:
        if self._name == "metadata":  # mappings, which are not hashable
            return [_argument(self._name, value) for value in values]
        return map(self.__getitem__, values)


def _argument(name: str, value: Any) -> str:
    is_blank = value is None or value is pd.NA or value != value or value == ""
    return "" if is_blank else f',"{name}":{_json(value)}'


class _Head(dict[tuple[int, str], str]):
    """A cache from lane and operation to the JSON prefix that all their events share."""

    def __init__(self, lanes: Lanes, pids: Sequence[int]) -> None:
        super().__init__()
        self._lanes = lanes.lanes
        self._pids = pids

    def __missing__(self, key: tuple[int, str]) -> str:
        lane, operation = key
        fields = {
            "pid": self._pids[self._lanes[lane].process],
            "tid": _tid(lane),
            "name": operation,
            "cat": _category(operation),
        }
        text = self[key] = _json(fields)[:-1]
        return text


def _tid(lane: int) -> int:
    return lane + 1  # Perfetto reserves 0 for the idle task


def _category(operation: str) -> str:
    if is_wait(operation):
        return "wait"
    return "communication" if is_communication(operation) else "work"


def name_events(lanes: Lanes, process_names: Sequence[str], pids: Sequence[int]) -> Iterator[str]:
    """Yield the events that set the names of processes and lanes, and their order of display."""
    for order, (pid, name) in enumerate(zip(pids, process_names, strict=True)):
        yield _named(pid, 0, "process_name", "name", name)
        yield _named(pid, 0, "process_sort_index", "sort_index", order)
    for number, lane in enumerate(lanes.lanes):
        yield _named(pids[lane.process], _tid(number), "thread_name", "name", lane.name)
        yield _named(pids[lane.process], _tid(number), "thread_sort_index", "sort_index", number)


def _named(pid: int, tid: int, what: str, key: str, value: str | int) -> str:
    return _json({"ph": "M", "pid": pid, "tid": tid, "name": what, "args": {key: value}})


def row_events(rows: TraceRows, here: Ints, lanes: Lanes, flows: Flows, pids: Sequence[int]) -> list[str]:
    """Return the events of the rows at the positions ``here``: a span, or an instant if no end is known."""
    head = _Head(lanes, pids)
    columns = [name for name in ARGUMENTS if name in rows.frame.columns]
    table = rows.frame.select("operation", *columns)[here]
    arguments = zip(*(_Argument(name).texts(table[name].to_list()) for name in columns), strict=True)
    events = zip(
        lanes.of_row[here].tolist(), table["operation"].to_list(), rows.start_ns[here].tolist(),
        rows.end_ns[here].tolist(), rows.ended[here].tolist(), _flow_texts(flows, here), arguments,
        strict=True,
    )  # fmt: skip
    return [
        f'{head[lane, operation]},"ts":{start_ns / 1000},'
        + (f'"ph":"X","dur":{(end_ns - start_ns) / 1000}{flow}' if ended else '"ph":"i","s":"t"')
        + f',"args":{{{"".join(texts)[1:]}}}}}'
        for lane, operation, start_ns, end_ns, ended, flow, texts in events
    ]


def _flow_texts(flows: Flows, here: Ints) -> list[str]:
    directions = {
        (False, False): "",
        (False, True): ',"flow_out":true',
        (True, False): ',"flow_in":true',
        (True, True): ',"flow_in":true,"flow_out":true',
    }
    passing = zip(
        flows.number[here].tolist(), flows.comes_in[here].tolist(), flows.goes_out[here].tolist(), strict=True
    )
    return [
        "" if number == NO_FLOW else f',"bind_id":"{number:#x}"{directions[comes_in, goes_out]}'
        for number, comes_in, goes_out in passing
    ]


def counter_events(counters: Counters, pids: Sequence[int]) -> list[str]:
    """Return the events of the bytes in flight, as one track per process."""
    head = [f'{{"ph":"C","pid":{pid},"name":"in flight","ts":' for pid in pids]
    changes = zip(counters.process.tolist(), counters.at_ns.tolist(), counters.n_bytes.tolist(), strict=True)
    return [
        f'{head[process]}{at_ns / 1000},"args":{{"bytes":{n_bytes}}}}}' for process, at_ns, n_bytes in changes
    ]
