"""Choose whole steps, so that few rows are left: every 7th, 49th, ..., the same ones on all ranks.

What recurs in every second, tenth or hundredth step, or after as many collectives, is hit as often as it
occurs, since a power of seven has no divisor in common with these. All hosts have the steps in common that
the one chose which had to leave out most: who leaves out fewer chose these, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from timing_logger.analysis.table_types import Bools, Floats
from timing_logger.engine.live.counted_steps import with_counted_steps
from timing_logger.engine.live.digest import Digest, Process

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
        return digest._replace(rows=digest.rows[:0])
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
    step: Floats = rows["iteration"].to_numpy(np.float64, na_value=np.nan)
    chosen: Bools = step % every == 0
    return digest._replace(every=every, rows=rows[chosen].reset_index(drop=True))


def _counted(rows: pd.DataFrame, processes: Sequence[Process]) -> pd.DataFrame:
    """Count the steps of those processes that record no iteration."""
    without = {(one.rank, one.incarnation) for one in processes if one.counted}
    if not without:
        return rows
    tables = [
        with_counted_steps(its)[0] if key in without else its
        for key, its in rows.groupby(["rank", "incarnation"], sort=False)
    ]
    counted: pd.DataFrame = pd.concat(tables, ignore_index=True) if tables else rows
    return counted
