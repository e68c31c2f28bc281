"""What the digests of a window report of processes, as arrays: how much each recorded, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.arrays import dense_codes
from timing_logger.analysis.grouping import greatest_of_each, least_of_each, sums
from timing_logger.analysis.table_types import Floats, Ints
from timing_logger.engine.live.digest import Digest, Process


class Kept(NamedTuple):
    """A digest of a window, with what is needed of all of these, and not only of the newest.

    Attributes:
        digest: the digest, without the sidecars and last rows of processes.
        figures: for each process that recorded something its rank, incarnation and generation, ``n_rows``,
            ``n_iterations``, ``since_s``, ``until_s`` and ``wall_offset_s``, as :class:`Process` has them.
    """

    digest: Digest
    figures: Floats

    @classmethod
    def of(cls, digest: Digest) -> Kept:
        """Keep a digest."""
        processes = [one for one in digest.processes if one.n_rows]
        bare = digest._replace(processes=[one._replace(sidecar={}) for one in processes], last=())
        return cls(bare, np.array([_figures(one) for one in processes], np.float64).reshape(-1, 8))

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
    def of(cls, kept: Sequence[Kept], counts: Sequence[tuple[str, Process]]) -> Reports:
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

    def counted(self, n_processes: int) -> Counted:
        """Sum what is reported of each process that counts."""
        own = self.process >= 0
        process = self.process[own]
        first_s = least_of_each(self.since_s[own], process, n_processes)
        last_s = greatest_of_each(self.until_s[own], process, n_processes)
        rows, iterations = (sums(of[own], process, n_processes) for of in (self.n_rows, self.n_iterations))
        return Counted(rows, iterations, last_s - first_s)

    def newest_unix_s(self, n_processes: int) -> Floats:
        """Return when the newest row of each process that counts ended, in s since 1970; NaN without any."""
        own = self.process >= 0
        return greatest_of_each((self.until_s + self.wall_offset_s)[own], self.process[own], n_processes)


class Counted(NamedTuple):
    """What processes recorded in a window; one entry per process.

    Attributes:
        rows, iterations: how many.
        wall_s: how long that took, in s; NaN without any.
    """

    rows: Floats
    iterations: Floats
    wall_s: Floats


def _figures(process: Process) -> tuple[float, ...]:
    return (*process.key, *process[4:9])


def places_among(found: Ints, among: Ints) -> Ints:
    """Return for each row of integers its position among others; -1 if it is not there."""
    code = dense_codes(*np.concatenate([among, found]).T)
    place = np.full(int(code.max(initial=-1)) + 1, -1)
    place[code[: len(among)]] = np.arange(len(among))
    return place[code[len(among) :]]
