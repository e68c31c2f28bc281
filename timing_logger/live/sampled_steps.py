"""Choose whole steps, so that few rows are left: every third, ninth, ..., the same ones on all ranks.

What recurs in every second, tenth or hundredth step, or after as many collectives, is hit as often as it
occurs, since a power of three has no divisor in common with these. All hosts have the steps in common that
the one chose which had to leave out most: who leaves out fewer chose these, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from timing_logger.analysis.rows.arrays import Bools, Floats, Ints, each_text
from timing_logger.analysis.rows.grouping import rows_of_each
from timing_logger.analysis.rows.operations import is_collective, synchronises_all_ranks
from timing_logger.live.digest import Digest, ProcessPlace, RowArrays

FACTOR = 3

LEAST_ROWS_PER_S, ROWS_PER_S, ROWS_PER_S_OF_JOB = 2000.0, 25.0, 60_000.0
"""How many rows a digest has for each second of the run: in all, or for each process if that is more; and
those of all hosts together, which one process judges."""

_LEAST_S = 1.0
_RAREST = FACTOR**14


def most_rows(processes: Sequence[ProcessPlace]) -> float:
    """Return how many rows a digest of these processes may have."""
    spans_s = [one.until_s - one.since_s for one in processes if one.n_rows]
    in_job = max([len(processes), *(one.sidecar.get("world_size") or 0 for one in processes)])
    rows_per_s = max(LEAST_ROWS_PER_S, ROWS_PER_S * len(processes))
    return min(rows_per_s, ROWS_PER_S_OF_JOB * len(processes) / max(in_job, 1)) * max([_LEAST_S, *spans_s])


def of_fewer_rows(digest: Digest, most_rows: float) -> Digest:
    """Return a digest of as many steps as have no more than this many rows."""
    while len(digest.rows) > most_rows:
        digest = thinned(digest)
    return digest


def thinned(digest: Digest) -> Digest:
    """Return a digest of one in ``FACTOR`` of its steps; of no step if there is nearly none left."""
    if digest.every >= _RAREST:
        return digest._replace(rows=digest.rows.only(slice(0)))
    return of_fewer_steps(digest, digest.every * FACTOR)


def of_fewer_steps(digest: Digest, every: int) -> Digest:
    """Return a digest of one of so many steps; what is in no step is left out, unless all are chosen.

    Args:
        digest: the digest.
        every: a power of ``FACTOR``.
    """
    if every <= digest.every:
        return digest
    rows = _counted(digest.rows, digest.processes) if digest.every == 1 else digest.rows
    chosen: Bools = rows.numbers["iteration"] % every == 0
    return digest._replace(every=every, rows=rows.only(chosen))


def _counted(rows: RowArrays, processes: Sequence[ProcessPlace]) -> RowArrays:
    """Count the steps of those processes that record no iteration."""
    counts = {(one.rank, one.incarnation): one.counted for one in processes}
    if not any(counts.values()):
        return rows
    iteration = rows.numbers["iteration"].copy()
    for at in rows_of_each(rows.process):
        its = rows.only(at)
        if counts.get((int(its.numbers["rank"][0]), int(its.numbers["incarnation"][0]))):
            iteration[at] = counted_steps(its)
    return rows.with_numbers(iteration=iteration)


# -- count the steps of a process that records no iteration: each collective of all ranks ends one -------
# All ranks number these alike, from whichever row on they are read. ``rounds_of`` finds the loop of a
# program in all of its rows; in those of a few seconds it would find another one for each rank.


def counted_steps(rows: RowArrays) -> Floats:
    """Return for each row the number of the collective that ends its step; NaN if that is not among them.

    Args:
        rows: rows of one process, none of which states an iteration.
    """
    ends, start_s = _ends_of_steps(rows), rows.numbers["start_counter"]
    ends = ends[np.argsort(start_s[ends], kind="stable")]
    next_one = np.searchsorted(start_s[ends], start_s)
    complete: Bools = (next_one < len(ends)) & ~np.isnan(start_s)
    number: Floats = np.full(len(rows), np.nan)
    number[complete] = rows.numbers["seq"][ends[next_one[complete]]]
    return number


def _ends_of_steps(rows: RowArrays) -> Ints:
    """Return the positions of the collectives that end steps: of the largest group, the first by name."""
    wanted = each_text(
        rows.texts["operation"], lambda name: is_collective(name) and synchronises_all_ranks(name)
    )
    wanted &= ~np.isnan(rows.numbers["seq"])
    size = np.nan_to_num(rows.numbers["group_size"])
    wanted &= size == size[wanted].max(initial=0.0)
    groups, names = rows.texts["group"]
    if wanted.any():
        wanted &= each_text((groups, names), min(names[code] for code in set(groups[wanted].tolist())).__eq__)
    return np.flatnonzero(wanted)
