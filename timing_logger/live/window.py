"""Put the latest digests of all hosts together: the last seconds of a run, in one table of timings."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.arrays import Floats, Ints, dense_codes
from timing_logger.analysis.rows.grouping import greatest_of_each, least_of_each, rows_of_each, sums
from timing_logger.analysis.verdict.causes.search import HostCounters
from timing_logger.live.digest import ADDED, CounterRows, Digest, ProcessPlace, RowArrays, joined_numbers
from timing_logger.live.sampled_steps import of_fewer_steps
from timing_logger.reading.alignment import Alignment, alignments
from timing_logger.reading.content import SharedFacts
from timing_logger.results import criteria
from timing_logger.schema.timing_files import TimingFile


class WindowNow(NamedTuple):
    """The last seconds of a run, at one moment.

    Attributes:
        processes: where the newest process of each rank is, in the order of ranks.
        counted: what each of these recorded.
        timings: the rows of the steps that all digests chose, on one axis: a table as that of
            ``read_timings``, with the columns of digests.
        last: the last rows of the processes of which these are known.
        host: returns what the hosts counted.
    """

    processes: list[ProcessPlace]
    counted: WindowRows
    timings: pd.DataFrame
    last: list[pd.DataFrame]
    host: HostCounters


class Window:
    """The last seconds of a run.

    Args:
        window_s: how many, back from the newest row; more, where so few hold less than ``WINDOW_STEPS``
            steps, or of these less than ``WINDOW_CHOSEN_STEPS``.
    """

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._digests: dict[str, list[KeptDigest]] = defaultdict(list)
        self._newest: dict[str, Digest] = {}

    def add(self, digest: Digest) -> None:
        """Take in the next digest of a host."""
        self._newest[digest.source] = digest
        if len(digest.rows):
            self._digests[digest.source].append(KeptDigest.of(digest))

    def now(self) -> WindowNow:
        """Put the digests together, and forget those that lie before the window."""
        told = self._told()
        processes = [process for _, process in told]
        kept = list(chain.from_iterable(self._digests.values()))
        since_unix_s = self._begin_unix_s(kept, Reports.of(kept, told).counted(len(told)))
        for source, its in self._digests.items():
            self._digests[source] = [one for one in its if not one.newest_unix_s < since_unix_s]
        kept = list(chain.from_iterable(self._digests.values()))
        reports = Reports.of(kept, told)
        clocks = alignments([(TimingFile(*one.key[:2]), one.sidecar or None) for one in processes])
        begins = _begins(processes, reports.newest_unix_s(len(processes)), since_unix_s)
        timings = on_one_axis([one.digest for one in kept], reports, clocks, begins).table()
        timings.attrs["files"] = SharedFacts(
            {"rank": one.rank, "incarnation": one.incarnation, "sidecar": one.sidecar or None}
            for one in processes
        )
        last = [rows for digest in self._newest.values() for rows in digest.last]
        counted = [(one.digest.source, one.digest.counters) for one in kept]
        host = partial(_counters, counted, told, clocks)
        return WindowNow(processes, reports.counted(len(processes)), timings, last, host)

    @property
    def processes(self) -> list[ProcessPlace]:
        """Where the newest process of each rank is, in the order of ranks."""
        return [process for _, process in self._told()]

    def _told(self) -> list[tuple[str, ProcessPlace]]:
        """Return the newest process of each rank, of the run that began last, and the source that told last.

        They are in the order of ranks.
        """
        digests = sorted(self._newest.values(), key=lambda digest: digest.unix_s)
        told = {one.key: (digest.source, one) for digest in digests for one in digest.processes}
        began = {_run_of(one): one.sidecar.get("started_unix_ns") or 0 for _, one in told.values()}
        latest = max(began, key=lambda run: began[run], default="")
        of_run = {key: one for key, one in told.items() if _run_of(one[1]) in ("", latest)}
        return list({key[0]: of_run[key] for key in sorted(of_run)}.values())

    def _begin_unix_s(self, kept: Sequence[KeptDigest], counted: WindowRows) -> float:
        """Return when the window begins, by what the ranks recorded lately."""
        steps = counted.iterations.sum()
        step_s = np.nansum(counted.wall_s) / steps if steps else 0.0
        newest_unix_s = max((one.newest_unix_s for one in kept), default=math.nan)
        every = max((one.digest.every for one in kept), default=1)
        least = max(criteria.WINDOW_STEPS, criteria.WINDOW_CHOSEN_STEPS * every)
        return newest_unix_s - max(self._window_s, min(least * step_s, criteria.LONGEST_WINDOW_S))


def _begins(processes: Sequence[ProcessPlace], newest_unix_s: Floats, since_unix_s: float) -> Floats:
    """Return when the window begins for each process, in seconds since 1970.

    Where an import knows no instants, rows follow each other without gaps, and those of a rank with longer
    ones run ahead: the window then lies as far back from the newest row of each.
    """
    begins = np.full(len(processes), since_unix_s)
    told = [(one.sidecar.get("imported") or {}).get("not_told", ()) for one in processes]
    without = np.array(["instants" in names for names in told], np.bool_)
    if without.any():
        begins[without] -= np.fmax.reduce(newest_unix_s, initial=-np.inf) - newest_unix_s[without]
    return begins


def _counters(
    several: Sequence[tuple[str, CounterRows]],
    told: Sequence[tuple[str, ProcessPlace]],
    clocks: Sequence[Alignment],
) -> pd.DataFrame:
    """Return what hosts counted of the processes that count, as ``read_host_counters`` does.

    Only the source that is believed of a process is: another one may have read the same lines.
    """
    rows = CounterRows.joined([its for _, its in several])
    numbers = {source: number for number, source in enumerate(dict.fromkeys(of for of, _ in told))}
    source = np.repeat([numbers.get(of, -1) for of, _ in several], [len(its.rank) for _, its in several])
    names = np.array([(numbers[of], *process.key[:2]) for of, process in told], np.int64).reshape(-1, 3)
    process = places_among(np.column_stack([source, rows.rank, rows.incarnation]), names)
    return rows.only(process >= 0).table(process[process >= 0], clocks)


def _run_of(process: ProcessPlace) -> str:
    return process.sidecar.get("run_id") or ""


# -- the rows of many digests on one time axis, as far as they lie in a window ---------------------------


def on_one_axis(
    digests: Sequence[Digest], reports: Reports, clocks: Sequence[Alignment], since_unix_s: Floats
) -> RowArrays:
    """Return the rows of a window, those of each process together and in order, on one axis.

    Args:
        digests: those of the window, those of a source in their order.
        reports: what they say of processes.
        clocks: those of the processes that count; the rows of others are left out.
        since_unix_s: when the window begins for each of these processes, in seconds since 1970.

    Returns:
        The rows of the steps that all digests have, with ``ADDED``.
    """
    every = max((digest.every for digest in digests), default=1)
    parts = [of_fewer_steps(digest, every).rows for digest in digests]
    part = np.repeat(np.arange(len(parts)), [len(its) for its in parts])
    rank, incarnation, starts_s = (
        joined_numbers(parts, name) for name in ("rank", "incarnation", "start_counter")
    )
    report = places_among(
        np.column_stack([part, rank, incarnation]),
        np.column_stack([reports.part, reports.rank, reports.incarnation]),
    )
    process = np.append(reports.process, -1)[report]
    since_s = np.append(since_unix_s, np.nan)[process] - np.append(reports.wall_offset_s, np.nan)[report]
    chosen = np.flatnonzero((process >= 0) & ~(starts_s < since_s))
    chosen = chosen[np.argsort(process[chosen], kind="stable")]
    return _with_axis(RowArrays.joined(parts, chosen), process[chosen], clocks)


def _with_axis(rows: RowArrays, process: Ints, clocks: Sequence[Alignment]) -> RowArrays:
    """Return rows with ``ADDED``, by the clock of the process of each."""
    alike: dict[tuple[str, int], int] = {}  # all processes of a host have one
    number = np.array([alike.setdefault((clock.how, id(clock.course)), i) for i, clock in enumerate(clocks)])
    starts_s, ends_s = rows.numbers["start_counter"], rows.numbers["end_counter"]
    on_axis: Floats = np.full((len(ADDED), len(rows)), np.nan)
    for its in rows_of_each(dense_codes(number[process])):
        clock = clocks[int(process[its][0])]
        uncertainty_s = np.fmax(clock.uncertainty_at(starts_s[its]), clock.uncertainty_at(ends_s[its]))
        on_axis[:, its] = clock.on_the_axis(starts_s[its]), clock.on_the_axis(ends_s[its]), uncertainty_s
    return rows.with_numbers(**dict(zip(ADDED, on_axis, strict=True)))


# -- what the digests of a window report of processes, as arrays: how much each recorded, and when -------


class KeptDigest(NamedTuple):
    """A digest of a window, with what is needed of all of these, and not only of the newest.

    Attributes:
        digest: the digest, without the sidecars and last rows of processes.
        figures: for each process that recorded something its rank, incarnation and generation, ``n_rows``,
            ``n_iterations``, ``since_s``, ``until_s`` and ``wall_offset_s``, as :class:`ProcessPlace` has
            them.
    """

    digest: Digest
    figures: Floats

    @classmethod
    def of(cls, digest: Digest) -> KeptDigest:
        """Keep a digest."""
        processes = [one for one in digest.processes if one.n_rows]
        figures = np.array([(*one.key, *one[4:9]) for one in processes], np.float64).reshape(-1, 8)
        bare = digest._replace(processes=[one._replace(sidecar={}) for one in processes], last=())
        return cls(bare, figures)

    @property
    def newest_unix_s(self) -> float:
        """When the newest of its rows ended, in seconds since 1970; -inf without any."""
        return float((self.figures[:, 6] + self.figures[:, 7]).max(initial=-np.inf))


class Reports(NamedTuple):
    """What digests report of processes: one entry for each digest and process that recorded something.

    Attributes:
        part: the number of the digest.
        rank, incarnation: of the process.
        process: its number among those that count; -1 if it does not.
        n_rows, n_iterations: how many the digest reports.
        since_s, until_s: when the first row began and the last one ended, on the clock of the process.
        wall_offset_s: the time since 1970 less the time on that clock.
    """

    part: Ints
    rank: Ints
    incarnation: Ints
    process: Ints
    n_rows: Floats
    n_iterations: Floats
    since_s: Floats
    until_s: Floats
    wall_offset_s: Floats

    @classmethod
    def of(cls, kept: Sequence[KeptDigest], counts: Sequence[tuple[str, ProcessPlace]]) -> Reports:
        """Put together what several digests report.

        Args:
            kept: the digests.
            counts: the processes that count, and the source of digests that is believed of each.
        """
        part = np.repeat(np.arange(len(kept)), [len(one.figures) for one in kept])
        figures = np.concatenate([np.zeros((0, 8)), *(one.figures for one in kept)])
        names = figures[:, :3].astype(np.int64)
        numbers: dict[str, int] = {}
        source = np.array([numbers.setdefault(one.digest.source, len(numbers)) for one in kept], np.int64)
        wanted = [(numbers.get(of, -1), *process.key) for of, process in counts]
        found = places_among(
            np.column_stack([source[part], names]), np.array(wanted, np.int64).reshape(-1, 4)
        )
        return cls(part, names[:, 0], names[:, 1], found, *figures[:, 3:].T)

    def counted(self, n_processes: int) -> WindowRows:
        """Sum what is reported of each process that counts."""
        own = self.process >= 0
        process = self.process[own]
        first_s = least_of_each(self.since_s[own], process, n_processes)
        last_s = greatest_of_each(self.until_s[own], process, n_processes)
        rows, iterations = (sums(of[own], process, n_processes) for of in (self.n_rows, self.n_iterations))
        return WindowRows(rows, iterations, last_s - first_s)

    def newest_unix_s(self, n_processes: int) -> Floats:
        """Return when the newest row of each process that counts ended, in s since 1970; NaN without any."""
        own = self.process >= 0
        return greatest_of_each((self.until_s + self.wall_offset_s)[own], self.process[own], n_processes)


class WindowRows(NamedTuple):
    """What processes recorded in a window; one entry per process.

    Attributes:
        rows, iterations: how many.
        wall_s: how long that took, in s; NaN without any.
    """

    rows: Floats
    iterations: Floats
    wall_s: Floats


def places_among(found: Ints, among: Ints) -> Ints:
    """Return for each row of integers its position among others; -1 if it is not there."""
    code = dense_codes(*np.concatenate([among, found]).T)
    place = np.full(int(code.max(initial=-1)) + 1, -1)
    place[code[: len(among)]] = np.arange(len(among))
    return place[code[len(among) :]]
