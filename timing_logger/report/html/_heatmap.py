"""The heatmap of rank by iteration, binned to as many columns as a screen can show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypedDict

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.arrays import Floats, Ints
from timing_logger.report._limits import BANDS, CELLS_OF_MANY, FEW_PROCESSES, HOST_ROWS
from timing_logger.report.html._crowd import OF_CHOSEN, Crowd
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._heatmap_grid import Grid, Slow
from timing_logger.report.html._tables import packed
from timing_logger.schema.record import escape_text
from timing_logger.words.units import process_name

_UNKNOWN_HOST = "host not known"


class Section(TypedDict):
    """Successive rows with a heading: what they are, what is added to the name of each, and how many."""

    name: str
    about: str
    n_rows: int


class Rows(NamedTuple):
    """The rows that are drawn, from top to bottom: processes, then hosts, then bands.

    Attributes:
        processes: of each row of a process its index in the grid.
        names: what is written beside each row.
        hosts: for each row of a host the processes of the grid that it is the mean of.
        others: the processes of the grid without a row of their own, of which the bands are.
        n_hosts: the number of hosts of these.
        sections: the headings; empty if every process has a row.
    """

    processes: Ints
    names: list[str]
    hosts: list[Ints]
    others: Ints
    n_hosts: int
    sections: list[Section]

    def values(self, ms: Floats) -> Floats:
        """Return the cells of the rows that are drawn.

        Args:
            ms: processes of the grid x columns; NaN where unknown.
        """
        parts = [ms[self.processes], *(_means(ms[processes])[None, :] for processes in self.hosts)]
        return np.concatenate([*parts, _bands(ms[self.others])] if len(self.others) else parts)

    def drawn_at(self) -> dict[int, int]:
        """Return for each process that has a row where that is."""
        return {process: row for row, process in enumerate(self.processes.tolist())}


def each_process(processes: Sequence[tuple[int, int]], first: Sequence[int]) -> Rows:
    """Return a row for each process of the grid.

    Args:
        processes: rank and incarnation of each process of the grid.
        first: indices of processes that come before the others.
    """
    leading = set(first)
    order = np.array([*first, *(row for row in range(len(processes)) if row not in leading)], np.int64)
    names = [process_name(*processes[row]) for row in order]
    return Rows(order, names, [], np.zeros(0, np.int64), 0, [])


def worst_and_others(processes: Sequence[tuple[int, int]], crowd: Crowd, judged_ms: Floats) -> Rows:
    """Return rows for many processes: of the worst one each, then hosts and bands of all others.

    Args:
        processes: rank and incarnation of each process of the grid.
        crowd: the order of the ranks.
        judged_ms: processes x columns: what hosts are sorted by, the longest first.
    """
    place = crowd.place()
    order = np.array(sorted(range(len(processes)), key=lambda row: (place[processes[row][0]], row)))
    worst, others = order[:FEW_PROCESSES], np.sort(order[FEW_PROCESSES:])
    of_host = _by_host(processes, others, crowd, judged_ms)
    hosts = dict(list(of_host.items())[:HOST_ROWS])
    names = [process_name(*processes[row]) for row in worst]
    names += [f"{escape_text(host)} ({len(its)})" for host, its in hosts.items()]
    are_all = len(hosts) == len(of_host)
    which = "Hosts, the slowest first" if are_all else f"{len(hosts)} slowest of {len(of_host):,} hosts"
    sections = [  # each has room on a phone
        Section(name=f"{len(worst)} ranks, the worst first", about="", n_rows=len(worst)),
        Section(name=f"{which} (ranks in the mean)", about=", mean of its other ranks", n_rows=len(hosts)),
        Section(
            name=f"Of the other {len(others):,} ranks, in each cell",
            about=f" of the other {len(others):,} ranks",
            n_rows=len(BANDS),
        ),
    ]
    shown = [section for section in sections if section["n_rows"]]
    return Rows(worst, [*names, *BANDS.values()], list(hosts.values()), others, len(of_host), shown)


def _by_host(
    processes: Sequence[tuple[int, int]], others: Ints, crowd: Crowd, judged_ms: Floats
) -> dict[str, Ints]:
    """Return the processes of each host, the host with the longest mean first; nothing if none is stated."""
    named = [crowd.hosts.get(processes[row][0], "") for row in others]
    if not any(named):
        return {}
    found: dict[str, list[int]] = {}
    for row, host in zip(others.tolist(), named, strict=True):
        found.setdefault(host or _UNKNOWN_HOST, []).append(row)
    mean_ms = np.nan_to_num(_means(judged_ms.T), nan=-1.0)
    slowest_first = sorted(found.items(), key=lambda item: -float(mean_ms[item[1]].mean()))
    return {host: np.array(rows) for host, rows in slowest_first}


def _means(ms: Floats) -> Floats:
    """Return the mean of each column over what is known of it; NaN where nothing is."""
    known = ~np.isnan(ms)
    counts = known.sum(axis=0)
    return np.where(counts > 0, np.where(known, ms, 0.0).sum(axis=0) / np.maximum(counts, 1), np.nan)


def _bands(ms: Floats) -> Floats:
    """Return the quantiles of each column: each the value of some process, and none between two."""
    ascending = np.sort(ms, axis=0)  # what is unknown comes last
    last = np.maximum((~np.isnan(ms)).sum(axis=0) - 1, 0)
    at = np.rint(np.array(list(BANDS))[:, None] * last).astype(np.int64)
    return np.take_along_axis(ascending, at, axis=0)


MANY_ROWS = 16
"""The number of rows beyond which those that the verdict names come first."""

_MOST_ROWS_OF_MANY = FEW_PROCESSES + HOST_ROWS + len(BANDS)

_VIEWS = {
    "clock_free_wait_ms": (
        "Waiting for others",
        "in collectives that synchronise ranks, beyond the least time that any rank spent in the same one; "
        "the rank that the others wait for has least",
    ),
    "step_ms": ("Time of the step", "from the rank's first row of the iteration to its first of the next"),
    "compute_ms": ("Own work", "rows that need no other rank, without the time they were blocked"),
    "communication_ms": ("Communication", "time in which some communication was under way"),
    "exposed_ms": (
        "Exposed communication",
        "communication while the rank had no work of its own, or, where none is logged, while it was blocked",
    ),
    "waited_ms": ("Blocked in WAIT", "time in which somebody was blocked on an operation of its own row"),
}


class View(NamedTuple):
    """One quantity that the heatmap can show: its name, what it is, and its value in ms in each cell."""

    name: str
    explanation: str
    ms: Floats


class Heatmap(NamedTuple):
    """The input of the template, and the data for heatmap.js.

    Attributes:
        views: what can be shown, first what the verdict compared; empty if there is nothing to draw.
        per_column: the most steps that one column represents.
        named_first: whether the ranks that the verdict names come before the others.
        left_out: a sentence on ranks that have no row of their own; "" if all have one.
        grid: the cells, for what is drawn below them; None if there is nothing to draw.
        data: the data for heatmap.js; None if there is nothing to draw.
    """

    views: list[View]
    per_column: int
    named_first: bool
    left_out: str
    grid: Grid | None
    data: Mapping[str, object] | None


def heatmap(findings: Findings) -> Heatmap:
    steps = findings.overlap[findings.overlap["iteration"].notna()]
    if steps.empty:
        return Heatmap([], 0, False, "", None, None)
    crowd = findings.crowd
    grid = grid_of(steps, crowd)
    views = [view for view in _views(grid, findings, steps) if np.nansum(view.ms) > 0]
    slow = grid.slow(findings.verdict, findings.own)
    named_first = bool(slow["rows"]) and len(grid.rows) > MANY_ROWS
    rows = _rows(grid, crowd, views, slow["rows"] if named_first else [])
    return Heatmap(
        views, grid.per_column, named_first, _on_ranks_left_out(rows), grid, _data(grid, views, rows, slow)
    )


def grid_of(steps: pd.DataFrame, crowd: Crowd) -> Grid:
    """Return the cells for a table with a row for each process and step: fewer columns for many ranks."""
    return Grid.of(steps, CELLS_OF_MANY // _MOST_ROWS_OF_MANY if crowd.is_many else None)


def _rows(grid: Grid, crowd: Crowd, views: list[View], first: list[int]) -> Rows:
    if not crowd.is_many or len(grid.rows) <= FEW_PROCESSES:
        return each_process(grid.rows, first)
    judged_ms = views[0].ms.reshape(len(grid.rows), -1) if views else np.zeros((len(grid.rows), 1))
    return worst_and_others(grid.rows, crowd, judged_ms)


def _on_ranks_left_out(rows: Rows) -> str:
    """Return the sentence that says which ranks have no row of their own, and what stands for them."""
    if not len(rows.others):
        return ""
    named, others = len(rows.processes), len(rows.others)
    n_shown = len(rows.hosts)
    which = "host" if n_shown == rows.n_hosts else f"of the {n_shown} slowest of {rows.n_hosts:,} hosts"
    hosts = f"the mean of each {which} and by " if n_shown else ""
    return (
        f"Of {named + others:,} ranks {named} have a row of their own: those that the verdict names, then "
        "those that others waited for longest, then those that took longest themselves. The other "
        f"{others:,} are shown by {hosts}bands: in each cell the longest of them all, the shortest, and "
        f"three between. {OF_CHOSEN}."
    )


def _views(grid: Grid, findings: Findings, steps: pd.DataFrame) -> list[View]:
    waiting = findings.waits[findings.waits["iteration"].notna()]
    return [
        View(*_about_own(findings), grid.means_of_own(findings.own)),
        *(
            View(*about, grid.means_of(waiting if name == "clock_free_wait_ms" else steps, name))
            for name, about in _VIEWS.items()
        ),
    ]


def _about_own(findings: Findings) -> tuple[str, str]:
    source = (
        "the time between its communication, logged or not"
        if findings.own.from_gaps
        else "its rows of own work, without waiting for others"
    )
    name = "Own time (judged)" if findings.verdict.judged else "Own time"
    return name, f"what the verdict compares with the rank's peers: {source}"


def _data(grid: Grid, views: list[View], rows: Rows, slow: Slow) -> dict[str, object]:
    first, last = grid.edges()
    drawn_at = rows.drawn_at()
    return {
        "rows": rows.names,
        **({"sections": rows.sections} if rows.sections else {}),
        **grid.axis.packed("first", first),
        **grid.axis.packed("last", last),
        "views": [
            {"name": view.name, "ms": packed(rows.values(view.ms.reshape(len(grid.rows), -1)), "float32")}
            for view in views
        ],
        "slow": {
            "rows": [drawn_at[row] for row in slow["rows"] if row in drawn_at],
            "frames": [[drawn_at[row], *ends] for row, *ends in slow["frames"] if row in drawn_at],
        },
    }
