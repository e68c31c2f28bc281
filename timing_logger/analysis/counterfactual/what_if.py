"""Answer what a run would have taken with something repaired."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.counterfactual.repaired import Repairing, is_slow_somewhere, judgement_to_repair
from timing_logger.analysis.counterfactual.transfer_costs import costs_table
from timing_logger.analysis.rows.analysis import COLUMNS_OF, ByProcess
from timing_logger.analysis.rows.arrays import Floats, Schema
from timing_logger.analysis.rows.tables import like, of_pandas, opened
from timing_logger.analysis.step_times.peers import peer_medians
from timing_logger.analysis.verdict.case import Case, Judgement
from timing_logger.analysis.verdict.causes.search import HostCounters
from timing_logger.analysis.verdict.verdict import JudgementPart, map_judgement, reduce_judgement
from timing_logger.analysis.verdict.who.pricing import Repair
from timing_logger.analysis.verdict.windows import STRAGGLERS
from timing_logger.results.plain import UNLOGGED
from timing_logger.results.policy import STANDARD, Policy
from timing_logger.results.what_if import Fix, Slowest, WhatIf


def what_if(
    timings: IntoDataFrameT,
    *fixes: str | Fix,
    roles: Mapping[int, object] | None = None,
    policy: Policy = STANDARD,
    host: pd.DataFrame | None = None,
) -> WhatIf:
    """Tell what a run would have taken with something repaired.

    The run is played again: each rank does what it did, with other times, and waits for whom it needs.
    Compare Lin et al., Understanding stragglers in large model training using what-if analysis (OSDI 2025).

    Args:
        timings: as ``read_timings`` returns.
        fixes: what is repaired, all of it together, such as ``"rank=2"`` or ``Fix("rank", "2")``;
            :class:`Fix` has the kinds.
        roles, policy, host: as those of :func:`timing_logger.analysis.verdict`.

    Raises:
        FixError: nothing is to be repaired, or the run tells nothing of what is.
    """
    chosen = parsed(fixes)
    return _answered(judgement_to_repair(timings, roles, policy, host), chosen)


class Repaired(NamedTuple):
    """What a run would have taken, and the best single repairs.

    Attributes:
        answer: as :func:`what_if` returns; None if nothing was asked for.
        best: as :func:`repairs` returns.
        transfers: as ``transfer_costs`` returns.
    """

    answer: WhatIf | None
    best: pd.DataFrame
    transfers: pd.DataFrame


def repaired_beside(fixes: Sequence[Fix], host: HostCounters) -> ByProcess[JudgementPart, Repaired]:
    """Return the analysis of a run of which host counters can be read."""
    return ByProcess(
        STRAGGLERS.columns,
        partial(map_judgement, with_gaps=True),
        partial(_reduced, fixes=fixes, host=host),
        STRAGGLERS.row_bytes,
    )


def _reduced(parts: Sequence[JudgementPart], *, fixes: Sequence[Fix], host: HostCounters) -> Repaired:
    judgement = reduce_judgement(parts, host=host)
    answer = _answered(judgement, fixes) if fixes else None
    table = of_pandas()
    return Repaired(answer, best_table(judgement, table), costs_table(judgement.case, table))


def parsed(fixes: Sequence[str | Fix]) -> list[Fix]:
    """Return repairs as such, each once."""
    found = [Fix.parse(str(fix)) for fix in fixes]
    return list(dict.fromkeys(found))


def _answered(judgement: Judgement, fixes: Sequence[Fix]) -> WhatIf:
    run = Repairing(judgement)
    repair = run.repair(fixes)
    ((gain, assumed_ms),) = run.gains_of([fixes])
    return WhatIf(
        fixes=tuple(fixes), run_ms=judgement.case.times.run_ms, gain_ms=gain.ms, gain_low_ms=gain.low_ms,
        gain_high_ms=gain.high_ms, assumed_gain_ms=assumed_ms, slowest=_slowest(run, repair, fixes),
        why_unjudged=judgement.verdict.why, plays_again=run.pricing.plays_again,
    )  # fmt: skip


def _slowest(run: Repairing, repair: Repair, fixes: Sequence[Fix]) -> Slowest | None:
    """Return the rank that costs most once something is repaired, if it costs enough to be named."""
    fixed = {slow.column for slow in repair.slowed}
    columns = [column for column in by_excess(run.case, repair.quicker) if column not in fixed][:MOST_RANKS]
    further = [repair._replace(slowed=(*repair.slowed, *run.like_peers([column]))) for column in columns]
    gains = run.gains(further, beside=repair)
    if not gains:
        return None
    best = int(np.argmax([gain.ms for gain in gains]))
    times, cost_ms = run.case.times, gains[best].ms
    if times.share_of_run(cost_ms / times.recorded_every) < run.case.policy.min_cost_share:
        return None
    operation = operation_of(run.case, columns[best], {fix.value for fix in fixes})
    return Slowest(rank=times.ranks[columns[best]], operation=operation, cost_ms=cost_ms)


# -- which ranks take more than their peers, and in what -------------------------------------------------


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
    times = case.times if UNLOGGED in case.times.operations else case.times.by_gaps()
    beyond_ms = {
        name: float(np.nansum(its_ms[:, place] - peer_medians(its_ms)[:, place]))
        for name, its_ms in zip(times.operations, times.operation_ms[:, :, columns], strict=True)
    }
    left = {name: ms for name, ms in beyond_ms.items() if name not in repaired and ms > 0}
    return max(left, key=left.__getitem__, default="")


# -- which single repairs gain most ----------------------------------------------------------------------


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
