"""Facts on ranks together: a slow role, all of them slower, time lost in turn, how the run ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
