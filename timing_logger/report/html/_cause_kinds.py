"""**The table** of what a rank can stand still for, as the strip under the heatmap shows it."""

from __future__ import annotations

from typing import NamedTuple

from timing_logger.schema.record import COMPILE, GC, GRAPH_CAPTURE, IMPORT

US_PER_S = 1e6


class Counted(NamedTuple):
    """A kind that a host counts, in us of each second.

    Attributes:
        cause: the same in a verdict (``timing_logger.results.cause``).
        name: what it is called on the page.
        meaning: what was counted.
        counters: where it is looked up: the first of these that is known.
    """

    cause: str
    name: str
    meaning: str
    counters: tuple[str, ...]


class Paused(NamedTuple):
    """A kind that has rows of its own.

    Attributes:
        name: what it is called on the page.
        meaning: what was timed.
        operation: the operation of its rows.
    """

    name: str
    meaning: str
    operation: str


_SOMEBODY = "some task of the rank's control group, or of its host where the group is not known,"

COUNTED = (
    Counted(
        "processor-wait",
        "Processor wait",
        "the main thread was ready and had no processor",
        ("main_run_queue_wait_us",),
    ),
    Counted(
        "cpu-quota",
        "CPU quota",
        "a quota stopped the rank's control group; the time of all its processors, up to the whole step",
        ("throttled_us",),
    ),
    Counted(
        "disk-wait",
        "Disk pressure",
        f"{_SOMEBODY} waited for a disk",
        ("cgroup_io_pressure_some_us", "io_pressure_some_us"),
    ),
    Counted(
        "memory-wait",
        "Memory pressure",
        f"{_SOMEBODY} waited for memory",
        ("cgroup_memory_pressure_some_us", "memory_pressure_some_us"),
    ),
)

PAUSED = (
    Paused("Collector", "Python's garbage collector ran: GC rows", GC),
    Paused("Compiling", "torch.compile compiled: COMPILE rows", COMPILE),
    Paused("Graph capture", "a CUDA graph was captured: GRAPH_CAPTURE rows", GRAPH_CAPTURE),
    Paused("Imports", "modules were imported: IMPORT rows", IMPORT),
)

KINDS: tuple[Counted | Paused, ...] = (*COUNTED, *PAUSED)
