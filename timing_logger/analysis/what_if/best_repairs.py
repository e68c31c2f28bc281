"""Which single repairs gain most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.analysis.stragglers.case import Case, Judgement
from timing_logger.analysis.stragglers.policy import STANDARD, Policy
from timing_logger.analysis.table_types import Schema
from timing_logger.analysis.tables import like, opened
from timing_logger.analysis.what_if.excess import MOST_RANKS, by_excess
from timing_logger.analysis.what_if.fix import Fix
from timing_logger.analysis.what_if.repaired import Repairing, judgement_to_repair
from timing_logger.analysis.what_if.usual_times import is_slow_somewhere

_BEST = 10

_OF_REPAIRS: Schema = {
    "fix": nw.String, "gain_ms": nw.Float64, "gain_low_ms": nw.Float64, "gain_high_ms": nw.Float64,
    "share": nw.Float64, "of_all": nw.Float64,
}  # fmt: skip


def repairs(
    timings: IntoDataFrameT,
    *,
    roles: Mapping[int, object] | None = None,
    policy: Policy = STANDARD,
    host: pd.DataFrame | None = None,
) -> IntoDataFrameT:
    """Find the single repairs by which a run would be shortest.

    Tried are the ranks and hosts that take most beyond their peers, each operation that takes longer than
    usual somewhere, each pause that is recorded, transfers, uneven work, and the cause that the verdict
    names.

    Args:
        timings, roles, policy, host: as those of :func:`what_if`.

    Returns:
        At most ten rows, the greatest gain first; none that gains less than 1% of the run.

    Columns:
        fix: the repair, as :func:`what_if` takes it.
        gain_ms: by how much the run would be shorter, in ms.
        gain_low_ms, gain_high_ms: as in :class:`WhatIf`.
        share: ``gain_ms`` as a fraction of the run.
        of_all: as a fraction of what the run would gain if all ranks always took what is usual among their
            peers, and transfers, too; or of the greatest of these gains, if that is more. Repairs may have
            parts in common, so these fractions may sum to more than 1.
    """
    frame = opened(timings, COLUMNS_OF["stragglers"])
    return best_table(judgement_to_repair(timings, roles, policy, host), frame)


def best_table(judgement: Judgement, frame: nw.DataFrame[IntoDataFrameT]) -> IntoDataFrameT:
    """Return :func:`repairs` of what a verdict is based on, in the library of ``frame``."""
    run = Repairing(judgement)
    tried = list(_single(judgement, run))
    (all_of_it,) = run.gains([run.all_usual()])
    gains = [one.gain for one in run.gains_of([[fix] for fix in tried])]
    run_ms = judgement.case.times.run_ms
    all_ms = max([all_of_it.ms, *(gain.ms for gain in gains)])
    rows = [
        (str(fix), *gain, gain.ms / run_ms, gain.ms / all_ms)
        for fix, gain in zip(tried, gains, strict=True)
        if run_ms > 0 and gain.ms >= judgement.case.policy.min_cost_share * run_ms
    ]
    return like(frame, _OF_REPAIRS, sorted(rows, key=lambda row: -row[1])[:_BEST])


def _single(judgement: Judgement, run: Repairing) -> Iterator[Fix]:
    """Yield the single repairs that may gain something."""
    case = judgement.case
    for column in by_excess(case, np.ones(1))[:MOST_RANKS]:
        yield Fix("rank", str(case.times.ranks[column]))
    if len(case.by_host) > 1:
        yield from (Fix("host", host) for host in _slow_hosts(case))
    yield from (Fix("operation", name) for name in is_slow_somewhere(case) if name not in case.times.pauses)
    yield from (Fix("cause", name) for name in case.times.pauses)
    cause = judgement.verdict.cause
    if cause is not None and cause.ranks:
        yield Fix("cause", cause.name)
    if run.may_change_transfers:
        yield Fix("transfers", "usual")
    if case.times.workload.is_known:
        yield Fix("work", "even")


def _slow_hosts(case: Case) -> list[str]:
    order = by_excess(case, np.ones(1))
    place = {column: number for number, column in enumerate(order)}
    first = {
        host: min((place.get(column, len(order)) for column in columns.tolist()), default=len(order))
        for host, columns in case.by_host.items()
    }
    return sorted((host for host in first if first[host] < len(order)), key=first.__getitem__)[:MOST_RANKS]
