"""Answer what a run would have taken with something repaired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.analysis import ByProcess
from timing_logger.analysis.stragglers.case import Judgement
from timing_logger.analysis.stragglers.coinciding.search import HostCounters
from timing_logger.analysis.stragglers.policy import STANDARD, Policy
from timing_logger.analysis.stragglers.verdict import JudgementPart, map_judgement, reduce_judgement
from timing_logger.analysis.stragglers.who.prices import Repair
from timing_logger.analysis.stragglers.windows import STRAGGLERS
from timing_logger.analysis.tables import of_pandas
from timing_logger.analysis.what_if.best_repairs import best_table
from timing_logger.analysis.what_if.excess import MOST_RANKS, by_excess, operation_of
from timing_logger.analysis.what_if.fix import Fix
from timing_logger.analysis.what_if.repaired import Repairing, judgement_to_repair
from timing_logger.analysis.what_if.result import Slowest, WhatIf
from timing_logger.analysis.what_if.transfer_costs import costs_table


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
        roles, policy, host: as those of :func:`timing_logger.analysis.stragglers`.

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
    if (
        run.case.times.share_of_run(gains[best].ms / run.case.times.recorded_every)
        < run.case.policy.min_cost_share
    ):
        return None
    operation = operation_of(run.case, columns[best], {fix.value for fix in fixes})
    return Slowest(rank=run.case.times.ranks[columns[best]], operation=operation, cost_ms=gains[best].ms)
