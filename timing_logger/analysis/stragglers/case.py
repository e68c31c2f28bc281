"""What is judged, and by what: the times of a run, the roles of its ranks, and the policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from timing_logger.analysis.stragglers.peers import members
from timing_logger.analysis.stragglers.policy import Policy
from timing_logger.analysis.stragglers.step_times import StepTimes
from timing_logger.analysis.tables import Ints


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
        return members(self.times.ranks, self.roles)

    @cached_property
    def by_host(self) -> dict[str, Ints]:
        """The columns of the ranks of each host; empty unless the host of every rank is known."""
        ranks = self.times.ranks
        return members(ranks, self.hosts) if all(self.hosts.get(rank) for rank in ranks) else {}

    def with_times(self, times: StepTimes) -> Case:
        """Return the case of the same ranks with other times."""
        return replace(self, times=times)
