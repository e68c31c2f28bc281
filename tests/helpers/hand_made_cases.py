"""Cases, candidates and step times that are made by hand: what a single function of the analysis takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from timing_logger.analysis.rows.arrays import Floats, Ints
from timing_logger.analysis.rows.files import NO_ROLE
from timing_logger.analysis.rows.steps import Numbering
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.step_times.transfers import Link, Transfers, Waits
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.who.candidates import Candidate
from timing_logger.analysis.verdict.who.slow_steps import SlowSteps
from timing_logger.results.facts import Gate
from timing_logger.results.policy import Policy

POLICY = Policy()
NO_STEPS: Ints = np.zeros(0, np.int64)


def steps(*at: int) -> Ints:
    return np.array(at, np.int64)


def waits_of(shape: tuple[int, int], **known: Floats) -> Waits:
    """Return waits of which only some are known; the others are 0."""
    nothing = np.zeros(shape)
    of_ranks = np.zeros(shape[1] + 1)
    blank: dict[str, Floats] = dict.fromkeys(Waits._fields, nothing)
    blank |= {"varying_ms": of_ranks, "recurring_ms": of_ranks}
    return Waits(**{**blank, **known})


def transfers_of(
    columns: Sequence[tuple[int, ...]], mean_ms: Floats, *, operation: str = "ALLREDUCE", **changed: Any
) -> Transfers:
    """Return transfers over links of these ranks: one of each in every step, all equally large."""
    links = [Link(operation, f"group {i}", 1024, its) for i, its in enumerate(columns)]
    n = np.ones(mean_ms.shape, np.int64)
    return Transfers(links, mean_ms, n, np.full(mean_ms.shape, 1000.0), NO_STEPS, NO_STEPS)._replace(
        **changed
    )


def times_of(self_ms: Floats, **changed: Any) -> StepTimes:
    """Return the times of ranks 0, 1, ... that only compute, steps x ranks, as a run of 1000 ms."""
    shape = self_ms.shape
    known: dict[str, Any] = {
        "ranks": list(range(shape[1])), "iterations": np.arange(shape[0]), "operations": ["FORWARD"],
        "operation_ms": np.nan_to_num(self_ms)[None], "self_ms": self_ms, "waits": waits_of(shape),
        "gap_ms": self_ms, "in_gaps_ms": {}, "blocked_ms": np.zeros(shape),
        "transfers": transfers_of([], np.zeros((shape[0], 0))), "from_gaps": False, "has_iterations": True,
        "numbering": Numbering(np.zeros(0)), "wall_ms": 1000.0,
    }  # fmt: skip
    return StepTimes(**{**known, **changed})


def case_of(
    self_ms: Floats,
    *,
    roles: Sequence[str] | None = None,
    hosts: Sequence[str] | None = None,
    policy: Policy = POLICY,
    **changed: Any,
) -> Case:
    """Return the case of such a run; roles and hosts are given rank by rank."""
    n_ranks = self_ms.shape[1]
    by_rank: Mapping[int, str] = dict(enumerate(roles if roles is not None else [NO_ROLE] * n_ranks))
    return Case(times_of(self_ms, **changed), by_rank, policy, dict(enumerate(hosts or ())))


def candidate_of(
    column: int = 0,
    at: Ints | None = None,
    *,
    gates: Sequence[Gate] = (),
    level: float = 0.5,
    are_single: bool = False,
    n_ranks: int = 4,
    excess_ms: Floats | None = None,
    policy: Policy = POLICY,
    role: str = NO_ROLE,
    waited_share: float = 0.0,
    ratios: Floats | None = None,
    z: float = 10.0,
) -> Candidate:
    """Return a candidate among ranks of one role, slow in the given steps: else in the first twenty."""
    at = np.arange(20) if at is None else at
    slow = SlowSteps(column, at, "intermittent" if are_single else "bounded", level, z, are_single)
    its_ms = np.ones(len(at)) if excess_ms is None else excess_ms
    ratios = np.zeros((40, n_ranks)) if ratios is None else ratios
    return Candidate(
        slow, role, column, np.arange(n_ranks), ratios, its_ms, 0.5, tuple(gates), policy, waited_share
    )
