"""What a process under test notes in shared memory, and how its judge reads that after its end.

The note of a record is 0 before its call, ``STARTED`` during the call, and then the instant in ns of
``perf_counter_ns`` at which it had returned: negative if the logger or the process had begun to end by then.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

RECORDERS = ("TIMINGS", "SPANS", "DEL", "SIGNAL", "THREAD", "BURST")
"""Who records: two threads all the time, and finalizers, signal handlers, short threads and bursts."""

MOST = 2**15  # records of one recorder
HEADER = 16
STATS, STATS_ARE_THERE, STRUCK = 0, 4, 5
PER_GENERATION = HEADER + len(RECORDERS) * MOST
GENERATIONS = 2
"""A process may replace its program, by exec, by one that records as well."""
BYTES = 8 * GENERATIONS * PER_GENERATION
STARTED = 1

_UNUSED = 100  # notes in a row: a thread that was ended before it noted leaves one

Record = tuple[str, int]


class Notes(NamedTuple):
    """What was noted by one generation.

    Attributes:
        due: the records whose calls had returned before the end began, with these instants in ns.
        begun: all records whose calls had begun.
        stats: the logger's own figures at the end; None if it did not come that far.
        struck: whether the first and the second fault had begun.
        last_ns: the last instant that was noted; 0 if none was.
    """

    due: dict[Record, int]
    begun: set[Record]
    stats: tuple[int, ...] | None
    struck: tuple[bool, bool]
    last_ns: int


def read_notes(path: Path) -> list[Notes]:
    """Return the notes of each generation."""
    found = array("q", path.read_bytes())
    parts = [found[g * PER_GENERATION : (g + 1) * PER_GENERATION] for g in range(GENERATIONS)]
    return [_read(part, generation) for generation, part in enumerate(parts)]


def _read(part: array[int], generation: int) -> Notes:
    due, begun, last_ns = {}, set(), 0
    for i, who in enumerate(RECORDERS):
        first = HEADER + i * MOST
        for number, value in _used(part[first : first + MOST]):
            record = (f"{who}{generation}", number)
            begun.add(record)
            last_ns = max(last_ns, abs(value))
            if value > STARTED:
                due[record] = value
    stats = tuple(part[STATS : STATS + 4]) if part[STATS_ARE_THERE] else None
    return Notes(due, begun, stats, (part[STRUCK] != 0, part[STRUCK + 1] != 0), last_ns)


def _used(values: array[int]) -> Iterator[tuple[int, int]]:
    unused = 0
    for number, value in enumerate(values):
        unused = 0 if value else unused + 1
        if value:
            yield number, value
        elif unused > _UNUSED:
            return
