"""The lines under the timeline: what hosts counted, for the ranks that it shows, on its own axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.report._host_rates import COMMON_AXIS, OWN_AXIS, HostTable
from timing_logger.report._limits import MOST_LINES
from timing_logger.report.html._causes import COUNTED
from timing_logger.report.html._tables import Shown, Table, packed, significant, table
from timing_logger.report.html._timeline import Timeline
from timing_logger.schema.host_counters import BY_NAME
from timing_logger.words.units import process_name, seconds

MOST_COUNTERS = 3
"""The most counters under the timeline: with more of them it would no longer be seen together with them."""

MOST_INSTANTS = 1000
"""The most values of one line: about as many as a screen has pixels."""

MOST_VALUES = 60_000
"""The most values of all lines, of 2 bytes each: in base64 they are 160 kB."""

LEAST_VARIATION = 0.2
"""A counter whose high values vary by less than this part is steady, and not shown."""

_UNKNOWN = 2**16 - 1
_TOP = 2**16 - 2


class Line(NamedTuple):
    """One counter of all processes of the timeline.

    Attributes:
        kind: which.
        values: processes x instants; NaN where unknown.
    """

    kind: LineKind
    values: Floats

    @property
    def variation(self) -> float:
        """By how much of its high values the counter varies, from 0 to 1; -1 if nothing is known of it."""
        known = self.values[~np.isnan(self.values)]
        if not len(known):
            return -1.0
        low, high = np.quantile(known, (0.02, 0.98))
        return float((high - low) / (high + self.kind.noticeable))


class CounterLines(NamedTuple):
    """The input of the template, and the data for counters.js.

    Attributes:
        lines: the counter that the verdict names, then those that vary most; empty if none is shown.
        named: whether the verdict names the first.
        coarse: the time that one value stands for, in words; "" if that is less than a second.
        table: what the lines show, in figures.
        data: the data for counters.js; None if there is no line.
    """

    lines: list[Line]
    named: bool
    coarse: str
    table: Table
    data: Mapping[str, object] | None


NO_LINES = CounterLines([], False, "", table("Counters", [], []), None)


class LineValues:
    """Collects the values of all kinds of lines, one process after the other.

    Args:
        timeline: whose axis and processes the lines are for; it has rows.
        named: the counter that the verdict names, which comes first; "" if there is none.
    """

    def __init__(self, timeline: Timeline, named: str = "") -> None:
        self._timeline, self._kinds, self._named = timeline, line_kinds(named), named
        whose = timeline.whose
        self.processes = [
            process for process in timeline.origins_s if whose is None or process[0] in whose.ranks
        ]
        n_lines = MOST_COUNTERS * max(1, len(self.processes))
        n_instants = int(min(MOST_INSTANTS, MOST_VALUES // n_lines))
        edges_s = np.linspace(0.0, timeline.length_s, n_instants + 1)
        self._begin_s, self._end_s = edges_s[:-1], edges_s[1:]
        self._values = np.full((len(self._kinds), len(self.processes), n_instants), np.nan)
        self._row_of = {process: row for row, process in enumerate(self.processes)}

    @property
    def instant_s(self) -> float:
        """The time that one value stands for."""
        return float(self._end_s[0])

    def add(self, host: HostTable) -> None:
        """Add what a process wrote of its host, if the timeline shows it."""
        row = self._row_of.get(host.process)
        if row is None:
            return
        axis = COMMON_AXIS if self._timeline.is_common else OWN_AXIS
        origin_s = self._timeline.origins_s[host.process]
        for number, kind in enumerate(self._kinds):
            if (held := host.first_known(kind.counters, axis)) is not None:
                means = held.means(origin_s + self._begin_s, origin_s + self._end_s)
                self._values[number, row] = means * kind.factor

    def lines(self) -> list[Line]:
        """Return the counter that the verdict names, and those that vary noticeably, most first."""
        found = [Line(kind, values) for kind, values in zip(self._kinds, self._values, strict=True)]
        varied = [line for line in found if line.variation >= LEAST_VARIATION or self.names(line)]
        return sorted(varied, key=lambda line: (not self.names(line), -line.variation))[:MOST_COUNTERS]

    def names(self, line: Line) -> bool:
        """Tell whether it is of the counter that the verdict names, and known."""
        return self._named in line.kind.counters and line.variation >= 0


def counter_lines_of(values: LineValues) -> CounterLines:
    """Return the lines of what was collected; none if no counter varies noticeably."""
    lines = values.lines()
    if not lines:
        return NO_LINES
    coarse = seconds(1e3 * values.instant_s) if values.instant_s >= 1 else ""
    return CounterLines(lines, values.names(lines[0]), coarse, _table(lines, values), _data(lines, values))


def _data(lines: list[Line], values: LineValues) -> dict[str, object]:
    return {
        "processes": [process_name(*process) for process in values.processes],
        "counters": [_of_line(line) for line in lines],
    }


def _of_line(line: Line) -> dict[str, object]:
    top = float(np.nanmax(line.values)) or 1.0
    codes = np.where(np.isnan(line.values), _UNKNOWN, np.rint(_TOP * line.values / top))
    return {"name": line.kind.name, "unit": line.kind.unit, "top": top, "values": packed(codes, "uint16")}


def _table(lines: list[Line], values: LineValues) -> Table:
    heads = ["counter", "rank", "mean", "highest", "unit"]
    rows = [row for line in lines for row in _rows(line, values)]
    return table("Counters of these ranks", heads, rows, Shown(10 * MOST_LINES, "", ""))


def _rows(line: Line, values: LineValues) -> list[list[str]]:
    known = np.flatnonzero((~np.isnan(line.values)).any(axis=1))
    return [
        [
            line.kind.name, process_name(*values.processes[row]), significant(np.nanmean(line.values[row])),
            significant(np.nanmax(line.values[row])), line.kind.unit,
        ]
        for row in known
    ]  # fmt: skip


# -- which counters the page may show under the timeline -------------------------------------------------


_SHOWN = {
    "us": ("% of the time", 1e-4),
    "kb": ("MB/s", 1e-3),
    "mb": ("MB", 1.0),
    "mhz": ("MHz", 1.0),
    "bits": ("", 1.0),
    "c": ("degrees C", 1.0),
    "w": ("W", 1.0),
}
"""How a counter is shown by its unit: in which, and by which factor."""


class LineKind(NamedTuple):
    """One line.

    Attributes:
        name: what it is called on the page.
        counters: where it is looked up: the first of these that is known.
        unit: the unit of what is shown.
        factor: that unit, by the unit of the counter, of which what grows is taken per second.
        noticeable: how much of it, in its unit, somebody would begin to look at.
    """

    name: str
    counters: tuple[str, ...]
    unit: str
    factor: float
    noticeable: float


def _line(name: str, counter: str, noticeable: float = 1.0, *others: str, unit: str = "") -> LineKind:
    """Return the line of a counter, and of others where it is not known, in the unit that the table gives."""
    stated = BY_NAME[counter]
    shown, factor = _SHOWN.get(stated.unit, ("per s" if stated.kind == "difference" else "", 1.0))
    return LineKind(name, (counter, *others), unit or shown, factor, noticeable)


LINES = (
    *(_line(kind.name, kind.counters[0], 1.0, *kind.counters[1:]) for kind in COUNTED),
    _line("Processor time of the process", "process_cpu_us", 20.0, unit="% of a core"),
    _line("Taken by the hypervisor", "steal_us", 5.0, unit="% of a core"),
    _line("Major page faults", "major_faults", 10.0),
    _line("Read by the process", "process_read_kb", 10.0),
    _line("Written by the process", "process_written_kb", 10.0),
    _line("Swapped in by the host", "swapped_in_kb"),
    _line("Memory of the process", "resident_mb", 100.0),
    _line("Memory left on the host", "memory_available_mb", 1000.0),
    _line("Processor frequency", "cpu_mhz", 100.0),
    _line("Network, received by the host", "network_received_kb", 10.0),
    _line("Network, sent by the host", "network_sent_kb", 10.0),
    _line("TCP segments sent again", "tcp_retransmits", 10.0),
    _line("InfiniBand, received by the host", "ib_received_kb", 100.0),
    _line("InfiniBand, sent by the host", "ib_sent_kb", 100.0),
    _line("Device clock", "gpu_sm_mhz", 100.0),
    _line("Device temperature", "gpu_temperature_c", 20.0),
    _line("Device power", "gpu_power_w", 50.0),
    _line("Device memory, asked for again", "gpu_alloc_retries"),
)


def line_kinds(named: str) -> tuple[LineKind, ...]:
    """Return the kinds of lines, with the one that the verdict names.

    Args:
        named: a counter, which gets a line of its own if none is of it first; "" for none.
    """
    if not named:
        return LINES
    of_it = next((kind for kind in LINES if named in kind.counters), None)
    itself = of_it._replace(counters=(named,)) if of_it else _line(named, named)
    return (itself, *(kind for kind in LINES if kind is not of_it))
