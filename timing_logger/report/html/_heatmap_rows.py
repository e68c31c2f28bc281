"""The rows of the heatmap: processes by name; of many the worst, and all others by host and in bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from timing_logger.analysis.rows.table_types import Floats, Ints
from timing_logger.report._limits import BANDS, FEW_PROCESSES, HOST_ROWS
from timing_logger.report.html._crowd import Crowd
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
    sections = [
        Section(name=f"{len(worst)} ranks, the worst first", about="", n_rows=len(worst)),
        Section(
            name=_about_hosts(len(hosts), len(of_host)), about=", mean of its other ranks", n_rows=len(hosts)
        ),
        Section(
            name=f"Of the other {len(others):,} ranks, in each cell",
            about=f" of the other {len(others):,} ranks",
            n_rows=len(BANDS),
        ),
    ]
    shown = [section for section in sections if section["n_rows"]]
    return Rows(worst, [*names, *BANDS.values()], list(hosts.values()), others, len(of_host), shown)


def _about_hosts(n_shown: int, n_hosts: int) -> str:
    """Return a heading that has room on a phone."""
    which = f"{n_shown} slowest of {n_hosts:,} hosts" if n_shown < n_hosts else "Hosts, the slowest first"
    return f"{which} (ranks in the mean)"


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
