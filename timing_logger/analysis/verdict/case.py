"""What is judged, and by what: the times of a run, the roles of its ranks, the policy; and the judgement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import Ints
from timing_logger.analysis.rows.grouping import rows_of_each
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.results.facts import EndedBadly
from timing_logger.results.policy import Policy
from timing_logger.results.run_end import RunEnd
from timing_logger.results.verdict import Verdict
from timing_logger.words.verdict import in_words


@dataclass(frozen=True, eq=False)
class Case:
    """A run to be judged.

    Attributes:
        times: the times of the run.
        roles: the role of each rank.
        policy: the numbers that decide.
        hosts: the host of each rank; empty where it is not known.
    """

    times: StepTimes
    roles: Mapping[int, str]
    policy: Policy
    hosts: Mapping[int, str] = field(default_factory=dict)

    @cached_property
    def by_role(self) -> dict[str, Ints]:
        """The columns of the ranks of each role."""
        return self._columns_by(self.roles)

    @cached_property
    def by_host(self) -> dict[str, Ints]:
        """The columns of the ranks of each host; empty unless the host of every rank is known."""
        known = all(self.hosts.get(rank) for rank in self.times.ranks)
        return self._columns_by(self.hosts) if known else {}

    def _columns_by(self, names: Mapping[int, str]) -> dict[str, Ints]:
        of_columns = [names[rank] for rank in self.times.ranks]
        number = {name: i for i, name in enumerate(sorted(set(of_columns)))}
        columns = rows_of_each(np.array([number[name] for name in of_columns], np.int64))
        everybody = np.arange(len(of_columns))
        return {name: everybody[its] for name, its in zip(number, columns, strict=True)}

    def with_times(self, times: StepTimes) -> Case:
        """Return the case of the same ranks with other times."""
        return replace(self, times=times)


class Judgement(NamedTuple):
    """A verdict, and what it is based on.

    Attributes:
        case: the times by step and rank, the role of each rank, and the policy.
        verdict: the verdict on these times.
        are_comparable: whether the ranks are of one run, as far as can be seen.
        slow: the positions of the slow steps of each rank that is named, or suspected, against its peers.
    """

    case: Case
    verdict: Verdict
    are_comparable: bool = True
    slow: Mapping[int, Ints] = MappingProxyType({})

    def ending_in(self, end: RunEnd) -> Judgement:
        """Return the judgement with the end of the run, the policy, and how the verdict shows itself.

        The verdict on a run that hung becomes ``hang``, unless it tells of slow ranks that cost time.
        """
        warned = (EndedBadly(end.state, end.warning),) if end.warning else ()
        evidence = (*warned, *self.verdict.evidence)
        verdict = replace(self.verdict, end=end, evidence=evidence, policy=self.case.policy, wording=in_words)
        says_little = verdict.verdict in ("healthy", "diffuse") or not verdict.cost_ms > 0
        if end.hangs and self.are_comparable and (says_little or not verdict.judged):
            verdict = replace(
                verdict, verdict="hang", judged=True, why=None, ranks=end.culprits, operation=""
            )
        return self._replace(verdict=verdict)
