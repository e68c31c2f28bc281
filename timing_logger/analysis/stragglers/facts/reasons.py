"""Facts for which a run is not judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from timing_logger.analysis.stragglers.facts.of_all_ranks import Transfer


@dataclass(frozen=True)
class NoRows:
    """There are no rows."""


@dataclass(frozen=True)
class OneRank:
    """Only one rank is recorded."""


@dataclass(frozen=True)
class EachAlone:
    """Every rank is alone in its role."""


@dataclass(frozen=True)
class NoSelfTime:
    """Of no step it is known how long a rank worked."""


@dataclass(frozen=True)
class FewCompared:
    """Too few steps are known of two ranks of one role.

    Attributes:
        least_steps: how many it takes.
    """

    least_steps: int


@dataclass(frozen=True)
class DeviceClockHides:
    """Own work is on the device's clock, which goes on while a stream waits for other ranks.

    Attributes:
        typical_wait_ms: how long the rank that waits most does so in a typical step.
    """

    typical_wait_ms: float


@dataclass(frozen=True)
class RolesMayWait:
    """Ranks of several roles may wait for each other unseen, and too little of their own work is logged."""


@dataclass(frozen=True)
class OneWaitedFor:
    """The others waited visibly for one rank, which is slow by too little to be named.

    Attributes:
        rank: the rank.
        waiting_share: the fraction of all waiting that was for it.
        run_share: the fraction of the run by which it would be shorter if the rank were like its peers.
    """

    rank: int
    waiting_share: float
    run_share: float


@dataclass(frozen=True)
class LeavesLate:
    """The others waited visibly for one rank, which leaves collectives later than they do.

    Attributes:
        rank: the rank.
        late_ms: by how much longer than its peers it is, at least, in collectives after the last has come, on
            average over the steps.
        run_share: the fraction of the run that others waited for it, at least.
    """

    rank: int
    late_ms: float
    run_share: float


class CallCount(NamedTuple):
    """How often a function was called."""

    name: str
    calls: int


@dataclass(frozen=True)
class UntimedCalls:
    """Ranks may have waited for each other in calls without rows.

    Attributes:
        counts: the functions, the one that was called most first.
    """

    counts: tuple[CallCount, ...]


@dataclass(frozen=True)
class RanksLacking:
    """Rows of ranks are missing.

    Attributes:
        ranks: these ranks, ascending.
        how: what is known of them, in words.
    """

    ranks: tuple[int, ...]
    how: str


@dataclass(frozen=True)
class DifferentRuns:
    """The files look like those of different runs.

    Attributes:
        how: what shows it, in words.
    """

    how: str


@dataclass(frozen=True)
class UnlikeLinks:
    """Links that do the same differ, and nothing says which of them is usual.

    Attributes:
        slow, quick: the transfers of both kinds.
        times_as_long: the time of a slow one divided by that of a quick one.
        run_share: the fraction of the run that it costs.
    """

    slow: tuple[Transfer, ...]
    quick: tuple[Transfer, ...]
    times_as_long: float
    run_share: float


Reason = (
    NoRows | OneRank | EachAlone | NoSelfTime | FewCompared | DeviceClockHides | RolesMayWait
    | OneWaitedFor | LeavesLate | UntimedCalls | RanksLacking | DifferentRuns | UnlikeLinks
)  # fmt: skip
"""A fact for which a run is not judged."""
