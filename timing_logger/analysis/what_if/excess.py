"""Which ranks take more than their peers, and in what."""

from __future__ import annotations

import numpy as np

from timing_logger.analysis.series.peers import peer_medians
from timing_logger.analysis.step_times.step_times import UNLOGGED
from timing_logger.analysis.stragglers.case import Case
from timing_logger.analysis.table_types import Floats

MOST_RANKS = 16
"""How many ranks and hosts are tried as single repairs: those that take most beyond their peers."""


def by_excess(case: Case, quicker: Floats) -> list[int]:
    """Return the columns of ranks that take more than their peers over the run, those with most first."""
    excess_ms = np.zeros(len(case.times.ranks))
    self_ms = case.times.self_ms / quicker
    for columns in case.by_role.values():
        of_role = self_ms[:, columns]
        excess_ms[columns] = np.nansum(np.maximum(of_role - peer_medians(of_role), 0.0), axis=0)
    order: list[int] = np.argsort(-excess_ms, kind="stable").tolist()
    return [column for column in order if excess_ms[column] > 0]


def operation_of(case: Case, column: int, repaired: set[str]) -> str:
    """Return the operation in which a rank takes most beyond its peers, of those that are not repaired."""
    columns = next(its for its in case.by_role.values() if column in its)
    place = int(np.flatnonzero(columns == column)[0])
    beyond_ms = {}
    times = case.times if UNLOGGED in case.times.operations else case.times.by_gaps()
    for name, its_ms in zip(times.operations, times.operation_ms[:, :, columns], strict=True):
        beyond_ms[name] = float(np.nansum(its_ms[:, place] - peer_medians(its_ms)[:, place]))
    left = {name: ms for name, ms in beyond_ms.items() if name not in repaired and ms > 0}
    return max(left, key=left.__getitem__, default="")
