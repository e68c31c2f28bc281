"""**The table** of what a rank can stand still for, as the strip under the heatmap shows it."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from timing_logger.schema.record import COMPILE, GC, GRAPH_CAPTURE, IMPORT, escape_text

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


# -- what a rank did with its time, as the colours of bars: the same in all charts of a page -------------


_SHADES = 3
"""The most names of own work, and ranks that were waited for, that have a shade of their own."""


class TimeKinds(NamedTuple):
    """The colours of bars: names by class, in the order in which a bar has them."""

    names: dict[str, str]
    work: list[str]
    whom: list[int]

    @classmethod
    def of(cls, main: pd.DataFrame) -> TimeKinds:
        """Give those names of own work, and ranks waited for, that take most time a shade each."""
        work = _most(main[main["what"] == "own work"], "operation")
        whom = [int(rank) for rank in _most(main[main["what"] == "waiting"], "waited_for")]
        names = {
            **{f"work-{i}": escape_text(name) for i, name in enumerate(work)},
            "work-rest": "other own work" if work else "own work",
            "not-timed": "not timed",
            "transfer": "transfer",
            **{f"wait-{i}": f"waiting for rank {rank}" for i, rank in enumerate(whom)},
            "wait-rest": "waiting for others" if whom else "waiting",
            "not-matched": "not matched",
        }
        return cls(names, work, whom)

    def of_rows(self, rows: pd.DataFrame) -> list[str]:
        """Return the class of each row of an account, by ``what``, ``operation`` and ``waited_for``."""
        whom = rows["waited_for"].astype("Int64")
        known = [int(rank) if told else None for rank, told in zip(whom.fillna(0), whom.notna(), strict=True)]
        return [self._of(*row) for row in zip(rows["what"], rows["operation"], known, strict=True)]

    def _of(self, what: str, operation: str, waited_for: int | None) -> str:
        if what == "own work":
            return f"work-{self.work.index(operation)}" if operation in self.work else "work-rest"
        if what == "waiting":
            return f"wait-{self.whom.index(waited_for)}" if waited_for in self.whom else "wait-rest"
        return what.replace(" ", "-")


def _most(rows: pd.DataFrame, name: str) -> list[str]:
    ms = rows.groupby(name, observed=True)["ms"].sum().sort_values(ascending=False, kind="stable")
    return list(ms.index[:_SHADES])
