"""What the strip under the heatmap shows (``static/causes.js`` draws it), and **the table** of causes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import Floats, Ints
from timing_logger.report._host_rates import OWN_AXIS, HostTable
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._heatmap_grid import Grid
from timing_logger.report.html._tables import Packed, Table, packed, table
from timing_logger.schema.record import COMPILE, GC, GRAPH_CAPTURE, IMPORT
from timing_logger.words.units import percent, process_name

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

# -- the strip -------------------------------------------------------------------------------------------

MOST_CAUSES = 5
"""The most rows of the strip: more would be looked at one by one, which the table is better for."""

LEAST_SHARE = 0.01
"""A cause that took less than this part of every cell is not shown: each host counts a little of each."""

_UNKNOWN = 2**16 - 1
_OF_SHARE = 10_000


class CauseRow(NamedTuple):
    """One cause in each column of the heatmap.

    Attributes:
        kind: which.
        mean: the mean over the ranks of the part of the column's steps that it took; NaN where unknown.
        most: the same of the rank with most.
        whose: index of that rank's process in the grid; -1 where unknown.
        total_s: the time that it took, over all ranks.
        of_all: which part of the steps of all ranks that was.
    """

    kind: Counted | Paused
    mean: Floats
    most: Floats
    whose: Ints
    total_s: float
    of_all: float


class CausesStrip(NamedTuple):
    """The input of the template, and the data for causes.js.

    Attributes:
        rows: the cause that the verdict names, then those with most time; empty for no strip.
        named: whether the first is named by the verdict.
        counted: whether some row is of what hosts counted, once a second.
        left_out: the names of causes with less time than those shown.
        table: what the strip shows, in figures.
        data: the data for causes.js; None if there is no strip.
    """

    rows: list[CauseRow]
    named: bool
    counted: bool
    left_out: list[str]
    table: Table
    data: Mapping[str, object] | None


NO_CAUSES = CausesStrip([], False, False, [], table("", [], []), None)


class CauseSums:
    """Sums the time of each cause by process and column, one process after the other.

    Args:
        findings: with the steps of all processes.
        grid: the columns.
    """

    def __init__(self, findings: Findings, grid: Grid) -> None:
        steps, begins = findings.overlap, findings.step_begins
        inside = np.flatnonzero(steps["iteration"].notna().to_numpy() & ~np.isnan(begins.begin_s))
        steps, self._begin_s = steps.iloc[inside], begins.begin_s[inside]
        self._length_s = 1e-3 * steps["step_ms"].to_numpy(np.float64)
        self._process, self._column = grid.process_of(steps), grid.column[grid.axis.places_of(steps)]
        self._row_of = {process: row for row, process in enumerate(grid.rows)}
        order = np.argsort(self._process, kind="stable")
        self._of_row = np.split(order, np.searchsorted(self._process[order], range(1, len(grid.rows))))
        shape = (len(KINDS), len(grid.rows), int(grid.column[-1]) + 1)
        self._spent_s, self._known_s = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        everything = np.arange(len(inside))
        for number, kind in enumerate(PAUSED, start=len(COUNTED)):
            if kind.operation in begins.pauses_ms:
                paused_s = 1e-3 * begins.pauses_ms[kind.operation][inside]
                self._add(number, everything, paused_s)

    def add(self, host: HostTable) -> None:
        """Add what a process wrote of its host."""
        row = self._row_of.get(host.process)
        if row is None:
            return
        its = self._of_row[row]
        begin_s, length_s = self._begin_s[its], self._length_s[its]
        for number, kind in enumerate(COUNTED):
            held = host.first_known(kind.counters, OWN_AXIS)
            if held is not None:
                self._add(number, its, held.means(begin_s, begin_s + length_s) / US_PER_S * length_s)

    def _add(self, kind: int, steps: Ints, spent_s: Floats) -> None:
        """Add the time of a cause in some steps; NaN where it is not known."""
        steps, spent_s = steps[known := ~np.isnan(spent_s + self._length_s[steps])], spent_s[known]
        length_s, cell = self._length_s[steps], (self._process[steps], self._column[steps])
        np.add.at(self._spent_s[kind], cell, np.minimum(spent_s, length_s))
        np.add.at(self._known_s[kind], cell, length_s)

    def rows(self) -> list[CauseRow]:
        """Return the causes that took a noticeable part of some cell, the one with most time first."""
        found = [self._row(number, kind) for number, kind in enumerate(KINDS)]
        shown = [row for row in found if np.nanmax(row.most, initial=0.0) >= LEAST_SHARE]
        return sorted(shown, key=lambda row: -row.total_s)

    def _row(self, number: int, kind: Counted | Paused) -> CauseRow:
        spent_s, known_s = self._spent_s[number], self._known_s[number]
        is_known = known_s > 0
        shares = np.where(is_known, spent_s / np.where(is_known, known_s, 1.0), 0.0).astype(np.float64)
        n_known = is_known.sum(axis=0)
        whose = np.where(n_known > 0, np.where(is_known, shares, -1.0).argmax(axis=0), -1)
        unknown = np.where(n_known > 0, 0.0, np.nan)
        total_s, all_s = float(spent_s.sum(dtype=np.float64)), float(known_s.sum(dtype=np.float64))
        return CauseRow(
            kind, shares.sum(axis=0) / np.maximum(n_known, 1) + unknown, shares.max(axis=0) + unknown, whose,
            total_s, total_s / all_s if all_s else 0.0,
        )  # fmt: skip


def causes_of(sums: CauseSums, grid: Grid, named: str = "") -> CausesStrip:
    """Return the strip of what was summed; none if nothing took a noticeable part of a step.

    Args:
        sums: of all processes.
        grid: the columns.
        named: the cause that the verdict names; "" if there is none.
    """
    rows = sorted(sums.rows(), key=lambda row: not _is(row, named))
    shown, others = rows[:MOST_CAUSES], rows[MOST_CAUSES:]
    if not shown:
        return NO_CAUSES
    return CausesStrip(
        shown, _is(shown[0], named), any(isinstance(row.kind, Counted) for row in shown),
        [row.kind.name for row in others], table("Causes", _HEADS, [_line(row, grid) for row in rows]),
        _data(shown, grid, named),
    )  # fmt: skip


def _is(row: CauseRow, named: str) -> bool:
    return isinstance(row.kind, Counted) and row.kind.cause == named


def _data(rows: list[CauseRow], grid: Grid, named: str) -> dict[str, object]:
    whose = np.unique(np.concatenate([row.whose for row in rows]))
    return {
        "processes": [process_name(*grid.rows[process]) if process >= 0 else "" for process in whose],
        "causes": [
            {
                "name": row.kind.name,
                "named": _is(row, named),
                "mean": _packed_shares(row.mean),
                "most": _packed_shares(row.most),
                "whose": packed(np.searchsorted(whose, row.whose), "uint16"),
            }
            for row in rows
        ],
    }


def _packed_shares(shares: Floats) -> Packed:
    """Return shares in parts of ten thousand; 65,535 stands for what is not known."""
    return packed(np.where(np.isnan(shares), _UNKNOWN, np.rint(_OF_SHARE * shares)), "uint16")


_HEADS = ["cause", "of all steps", "most in", "on", "there"]


def _line(row: CauseRow, grid: Grid) -> list[str]:
    column = int(np.nanargmax(row.most))
    name = process_name(*grid.rows[row.whose[column]])
    return [
        row.kind.name, percent(row.of_all), grid.in_words(column), name, percent(float(row.most[column])),
    ]  # fmt: skip
