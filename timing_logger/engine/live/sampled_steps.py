"""Choose whole steps, so that few rows are left: every 7th, 49th, ..., the same ones on all ranks.

What recurs in every second, tenth or hundredth step, or after as many collectives, is hit as often as it
occurs, since a power of seven has no divisor in common with these. All hosts have the steps in common that
the one chose which had to leave out most: who leaves out fewer chose these, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from timing_logger.analysis.grouping import rows_of_each
from timing_logger.analysis.table_types import Bools
from timing_logger.engine.live.counted_steps import counted_steps
from timing_logger.engine.live.digest import Digest, Process
from timing_logger.engine.live.rows import Rows

FACTOR = 7

_RAREST = FACTOR**8


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


def _counted(rows: Rows, processes: Sequence[Process]) -> Rows:
    """Count the steps of those processes that record no iteration."""
    counts = {(one.rank, one.incarnation): one.counted for one in processes}
    if not any(counts.values()):
        return rows
    iteration = rows.numbers["iteration"].copy()
    for at in rows_of_each(rows.process):
        first = rows.only(at).only(slice(1)).numbers
        if counts.get((int(first["rank"][0]), int(first["incarnation"][0]))):
            iteration[at] = counted_steps(rows.only(at))
    return rows.with_numbers(iteration=iteration)
