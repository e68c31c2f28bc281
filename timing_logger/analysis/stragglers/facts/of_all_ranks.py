"""Facts on ranks together: a slow role, all of them slower, time lost in turn; and on slow transfers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from timing_logger.analysis.hangs.result import RunState

Slowing = Literal["together", "little by little"]
"""How all ranks became slower: at once, or in a growth that went on."""


@dataclass(frozen=True)
class SlowRole:
    """All ranks of a role are slower than the other roles.

    Attributes:
        role: the role; "" if it has no name.
        ranks: its ranks.
        times_as_long: the time of its typical rank divided by the median of the other roles.
    """

    role: str
    ranks: tuple[int, ...]
    times_as_long: float


@dataclass(frozen=True)
class AllSlower:
    """Most ranks became slower than in their own best past.

    Attributes:
        ranks_share: the fraction of the ranks that did.
        times_as_long: the time of the typical rank divided by that of its best past.
        how: how they became slower.
    """

    ranks_share: float
    times_as_long: float
    how: Slowing


@dataclass(frozen=True)
class LostToSlowest:
    """Time is lost to the slowest rank of each step.

    Attributes:
        lost_share: the fraction of the time that is lost.
        ranks: those to which most of it is; empty if to no one in particular.
    """

    lost_share: float
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class EndedBadly:
    """The run hung, failed or was cut off.

    Attributes:
        state: as that of the run's end.
        warning: ``RunEnd.warning``.
    """

    state: RunState
    warning: str


OfAllRanks = (
    SlowRole | AllSlower | LostToSlowest | EndedBadly
)  # fmt: skip
"""A fact on ranks together."""


# -- transfers ------------------------------------------------------------------------------------------


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


OfTransfers = (
    SlowTransfers | MostlyTransfers | OnlyInAllSlow | OnHost | EveryRankInSlow | OthersInAllSlow
    | NobodyInAllSlow
)  # fmt: skip
"""A fact on transfers."""
