"""Add to a judgement what host counters show of it: the verdict stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.table_types import Ints
from timing_logger.analysis.verdict.case import Judgement
from timing_logger.analysis.verdict.causes.shared import (
    cause_in_turn,
    cause_of_transfers,
    cause_together,
)
from timing_logger.analysis.verdict.causes.slow_rank import FoundCause, cause_of_rank

HostCounters: TypeAlias = Callable[[], pd.DataFrame | None]
"""Reads the table of host counters; it is called only where a cause is looked for."""

_OF_ALL = ("communication", "group-wide", "diffuse")

_NOTHING = FoundCause(None, None)


def given(table: pd.DataFrame | None) -> HostCounters | None:
    """Return what reads a table that is there already; None if there is none."""
    return None if table is None else lambda: table


def with_cause(found: Judgement, host: HostCounters | None) -> Judgement:
    """Return the judgement with the cause that host counters show, and with what was looked at.

    Nobody is named for it, and no other verdict is given.
    """
    if host is None or not found.are_comparable or not _is_asked(found):
        return found
    table = host()
    if table is None or not len(table):
        return found
    answer = _answer(found, table)
    return found._replace(verdict=replace(found.verdict, cause=answer.cause, sought=answer.sought))


def _is_asked(found: Judgement) -> bool:
    """Tell whether time is lost of which it is not known why."""
    verdict, visible = found.verdict, found.case.policy.visible_cost_share
    of_ranks = verdict.verdict in ("rank", "suspect")
    if not verdict.judged or verdict.owner == "work" or (of_ranks and not verdict.owner):
        return False
    waited = max(verdict.not_explained, verdict.lost_in_turn, verdict.recurring)
    return of_ranks or verdict.verdict in _OF_ALL or waited >= visible


def _answer(found: Judgement, table: pd.DataFrame) -> FoundCause:
    case, verdict = found.case, found.verdict
    if verdict.verdict in ("rank", "suspect"):
        looked_at = [rank for rank in verdict.ranks_to_look_at if rank in found.slow]
        if not looked_at:
            return _NOTHING
        first = looked_at[0]
        return cause_of_rank(case, first, looked_at, found.slow[first], table)
    if verdict.verdict == "communication":
        return cause_of_transfers(case, table)
    if verdict.verdict == "group-wide":
        return cause_together(case, _steps_of(found), table)
    lost_ms = verdict.cost_ms or verdict.lost_in_turn * case.times.run_ms
    return cause_in_turn(case, lost_ms / verdict.recorded_every, table)


def _steps_of(found: Judgement) -> Ints:
    """Return the positions of the steps in which all ranks were slower: from the first to the last."""
    verdict, times = found.verdict, found.case.times
    iterations, epochs = (
        times.numbering.iterations(times.iterations),
        times.numbering.epochs_of(times.iterations),
    )
    ends = []
    for iteration, epoch in (
        (verdict.first_iteration, verdict.first_epoch), (verdict.last_iteration, verdict.last_epoch)
    ):  # fmt: skip
        its = (iterations == iteration) & (np.isnan(epochs) if epoch is None else epochs == epoch)
        ends.append(int(np.argmax(its)))
    return np.arange(ends[0], ends[1] + 1)
