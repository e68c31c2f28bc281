"""What a verdict rests on, in values: facts on ranks, on transfers, and for which a run is not judged.

There is a class for each kind of fact. ``timing_logger.words`` has their sentences.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from timing_logger.results.plain import plain_fields
from timing_logger.results.rank_facts import RankFact
from timing_logger.results.run_end import RunState


@dataclass(frozen=True)
class EndedBadly:
    """The run hung, failed or was cut off.

    Attributes:
        state: as that of the run's end.
        warning: ``RunEnd.warning``.
    """

    state: RunState
    warning: str


Than = Literal["before", "others", "usual"]
"""What a slow link is compared with: earlier steps, others of its kind, or its own other steps."""


class Transfer(NamedTuple):
    """A transfer that recurs: messages from one rank to another, or a collective of a group.

    Attributes:
        operation: the operation; ``SEND`` for messages.
        group: the name of the group; "" if it has none.
        sender, receiver: the ranks of messages; None for a collective.
        up_to_bytes: the least power of two that is no less than the bytes of a message; None if unknown.
    """

    operation: str
    group: str
    sender: int | None
    receiver: int | None
    up_to_bytes: int | None


@dataclass(frozen=True)
class SlowTransfers:
    """The costliest of the slow transfers, and how slow it is.

    Attributes:
        transfer: the transfer.
        took_ms: how long one typically takes in its slow steps, without waiting.
        usual_ms: how long it should take, by what it is compared with.
        than: what it is compared with.
        slow_steps: in how many steps it is slow.
        recorded_steps: in how many steps its time is known.
    """

    transfer: Transfer
    took_ms: float
    usual_ms: float
    than: Than
    slow_steps: int
    recorded_steps: int


@dataclass(frozen=True)
class MostlyTransfers:
    """Ranks are blocked in transfers for most of the run, and nothing says how long these should take.

    Attributes:
        run_share: the fraction of the run for which they are, without waiting.
        transfer: the one that takes most of that.
    """

    run_share: float
    transfer: Transfer


@dataclass(frozen=True)
class OnlyInAllSlow:
    """These ranks take part in all slow transfers, and in no others of their kind."""

    ranks: tuple[int, ...]


@dataclass(frozen=True)
class OnHost:
    """The ranks that were just named are those of a host."""

    host: str


@dataclass(frozen=True)
class EveryRankInSlow:
    """All ranks take part in slow transfers."""


@dataclass(frozen=True)
class OthersInAllSlow:
    """These ranks take part in all slow transfers, but also in others of their kind."""

    ranks: tuple[int, ...]


@dataclass(frozen=True)
class NobodyInAllSlow:
    """No rank takes part in all slow transfers."""


RunFact = (
    EndedBadly | SlowTransfers | MostlyTransfers | OnlyInAllSlow | OnHost | EveryRankInSlow
    | OthersInAllSlow | NobodyInAllSlow
)  # fmt: skip
"""A fact on how the run ended, or on its transfers."""


# -- not judged -----------------------------------------------------------------------------------------


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
class CommunicationNotTold:
    """The rows were imported from what does not tell in which operations ranks wait for each other.

    Attributes:
        kind: the kind of the import.
    """

    kind: str


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
    | OneWaitedFor | LeavesLate | UntimedCalls | CommunicationNotTold | RanksLacking
    | DifferentRuns | UnlikeLinks
)  # fmt: skip
"""A fact for which a run is not judged."""

Fact = RankFact | RunFact | Reason
"""Anything that a verdict rests on."""


def code_of(kind: type[Fact]) -> str:
    """Return the code of a kind of fact in JSON: ``slow-rank`` for ``SlowRank``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


def plain_fact(fact: Fact) -> dict[str, object]:
    """Return a fact as plain values that JSON can hold: its code as ``fact``, and its values by name."""
    return {"fact": code_of(type(fact)), **plain_fields(fact)}
