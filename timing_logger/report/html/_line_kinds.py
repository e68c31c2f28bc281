"""**The table** of the counters that the page may show under the timeline."""

from __future__ import annotations

from typing import NamedTuple

from timing_logger.report._host_rates import BY_NAME
from timing_logger.report.html._cause_kinds import COUNTED

_PERCENT_OF_US = 1e-4  # us of each second, as a part of the time
_MB_OF_KB = 1e-3


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
    factor: float = 1.0
    noticeable: float = 1.0


LINES = (
    *(LineKind(kind.name, kind.counters, "% of the time", _PERCENT_OF_US) for kind in COUNTED),
    LineKind("Processor time of the process", ("process_cpu_us",), "% of a core", _PERCENT_OF_US, 20.0),
    LineKind("Taken by the hypervisor", ("steal_us",), "% of a core", _PERCENT_OF_US, 5.0),
    LineKind("Major page faults", ("major_faults",), "per s", 1.0, 10.0),
    LineKind("Read by the process", ("process_read_kb",), "MB/s", _MB_OF_KB, 10.0),
    LineKind("Written by the process", ("process_written_kb",), "MB/s", _MB_OF_KB, 10.0),
    LineKind("Swapped in by the host", ("swapped_in_kb",), "MB/s", _MB_OF_KB),
    LineKind("Memory of the process", ("resident_mb",), "MB", 1.0, 100.0),
    LineKind("Memory left on the host", ("memory_available_mb",), "MB", 1.0, 1000.0),
    LineKind("Processor frequency", ("cpu_mhz",), "MHz", 1.0, 100.0),
    LineKind("Network, received by the host", ("network_received_kb",), "MB/s", _MB_OF_KB, 10.0),
    LineKind("Network, sent by the host", ("network_sent_kb",), "MB/s", _MB_OF_KB, 10.0),
    LineKind("TCP segments sent again", ("tcp_retransmits",), "per s", 1.0, 10.0),
    LineKind("InfiniBand, received by the host", ("ib_received_kb",), "MB/s", _MB_OF_KB, 100.0),
    LineKind("InfiniBand, sent by the host", ("ib_sent_kb",), "MB/s", _MB_OF_KB, 100.0),
    LineKind("Device clock", ("gpu_sm_mhz",), "MHz", 1.0, 100.0),
    LineKind("Device temperature", ("gpu_temperature_c",), "degrees C", 1.0, 20.0),
    LineKind("Device power", ("gpu_power_w",), "W", 1.0, 50.0),
    LineKind("Device memory, asked for again", ("gpu_alloc_retries",), "per s"),
)  # fmt: skip


def line_kinds(named: str) -> tuple[LineKind, ...]:
    """Return the kinds of lines, with the one that the verdict names.

    Args:
        named: a counter, which gets a line of its own if none is of it first; "" for none.
    """
    if not named:
        return LINES
    of_it = next((kind for kind in LINES if named in kind.counters), None)
    itself = of_it._replace(counters=(named,)) if of_it else _by_its_name(named)
    return (itself, *(kind for kind in LINES if kind is not of_it))


def _by_its_name(counter: str) -> LineKind:
    """Return the line of a counter that has no words of its own here."""
    if counter.endswith("_us"):
        return LineKind(counter, (counter,), "% of the time", _PERCENT_OF_US)
    return LineKind(counter, (counter,), "per s" if BY_NAME[counter].kind == "difference" else "")
