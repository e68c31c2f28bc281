"""The policy by which a run is judged: the numbers of a verdict that a user may change, and why each is so.

Each number has a default, a range and a reason, and is checked when a policy is made. What holds for every
policy is in ``timing_logger/results/criteria.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from numbers import Integral, Real
from typing import Any, NamedTuple, cast

from timing_logger.errors import ConfigurationError


def _number(
    range_: str, has: Callable[[float], bool], kind: type, default: float, reason: str, *, about: str = ""
) -> Any:
    """Make the field of a number; ``about`` is what this one and those that follow are about."""
    its = {"range": range_, "has": has, "kind": kind, "reason": reason, "about": about}
    return field(default=default, metadata=its)


share = partial(_number, "a number from 0 to 1", lambda number: 0 <= number <= 1, Real)
between = partial(_number, "a number between 0 and 1, both excluded", lambda number: 0 < number < 1, Real)
positive = partial(_number, "a finite number above 0", lambda number: 0 < number < math.inf, Real)
factor = partial(_number, "a finite number above 1", lambda number: 1 < number < math.inf, Real)
count = partial(_number, "a whole number from 1 on", lambda number: number >= 1, Integral)


class Number(NamedTuple):
    """A number of a policy.

    Attributes:
        name: the name of its field.
        value: what it is.
        standard: what it is in the standard policy.
        reason: why it is what it is there.
    """

    name: str
    value: float
    standard: float
    reason: str

    @property
    def differs(self) -> bool:
        """Whether it is another than in the standard policy."""
        return self.value != self.standard


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The numbers that decide a verdict; ``Policy(min_cost_share=0.02)`` differs from the standard in one.

    Each has a reason, which ``timing-logger stragglers --why`` prints and :meth:`numbers` returns.

    Raises:
        ConfigurationError: a number is out of its range.
    """

    min_score_gap: float = between(
        0.10,
        "A rank whose peers are quicker by less of its time matters too little, however certain that is.",
        about="What is slow, and what is chance",
    )
    flagged_score: float = between(
        0.75, "What takes a third longer than the best is bad. A single step as long stands out."
    )
    min_z: float = positive(
        3.5, "The usual limit of a robust z-score for what is no chance (Iglewicz, Hoaglin 1993)."
    )
    min_noise_sigma: float = positive(
        0.02, "Times within 2% are equal, however quiet the run is: the least sigma of log ratios."
    )
    min_level_steps: int = count(
        3, "What is shorter is a spike, and no level. So many steps say something of a rank at all."
    )
    min_slower_steps_share: float = share(
        0.75, "A rank is slower than its peers in this share of a slow stretch, and not in a few steps of it."
    )
    max_chance: float = share(
        0.001,
        "Single slow steps are the rank's own if they gather on one of equal ranks less often by chance.",
    )
    event_block_times: int = count(
        2, "Slow steps of a rank are one event in a block of so many times the usual length of an event."
    )
    max_suspected_chance: float = share(
        0.01, "A rank may be suspected of single slow steps that chance gathers on one as rarely as this."
    )
    very_slow_times: float = factor(
        3.0, "Steps so many times as long are tested apart: small delays of other ranks do not hide them."
    )
    min_steps_alone: int = count(
        2, "What no other rank of a role does is the rank's own. Once, it may be the start of the run."
    )
    edge_steps_share: float = share(
        0.05, "What begins or ends this close to an end of the run lasts from or to that end."
    )
    min_change_z: float = positive(
        1.0, "A change of level stands out from the noise by this, and by more in longer runs (see next)."
    )
    min_change_z_growth: float = positive(
        2.0, "Times sqrt(log(steps)), as the greatest of many chance changes grows."
    )
    interval_length_ratio: float = between(
        2**-0.5, "Changes are looked for in intervals of all lengths, each this much shorter than the last."
    )
    interval_shift_share: float = between(
        0.25, "Intervals of a length overlap: each begins this share of its length after the one before."
    )
    min_compared_stretches: int = count(
        8, "A run tells how far levels wander in stretches of which it has as many, and of no longer ones."
    )
    min_step_share: float = share(
        0.01, "Steps that take a smaller part of a long one (the third quartile) cost nothing, and are noise."
    )

    min_slow_steps: int = count(
        20,
        "Slow in fewer steps, a rank had a bad moment. A run of fewer steps must make do with all it has.",
        about="What a rank must be to be named",
    )
    min_costly_slow_steps: int = count(
        10, "Fewer slow steps are enough if they cost more: 1 / (share of the run), but no fewer than these."
    )
    min_cost_share: float = share(0.01, "A rank that costs less of the run is not worth a look.")
    visible_cost_share: float = share(
        0.05,
        "A cost of this share of the run is plainly visible in a timeline: something must be said of it.",
    )
    suspected_score_gap: float = between(
        0.075, "A visibly costly rank is suspected if its peers are quicker by this part of its time."
    )
    few_steps: int = count(10, "In fewer steps, noise alone may look steady (see next).")
    min_score_gap_of_few: float = between(
        0.35,
        "In a run of few steps, a rank must be slower: by chance it is not so much slower in all of them.",
    )
    min_waited_share: float = share(
        0.5, "A rank for which nobody waits costs nothing, or only logs more than its peers."
    )
    min_late_to_leave_share: float = share(
        0.5, "Waiting for a rank is put down to its leaving communication late if that is this part of it."
    )
    min_bursts: int = count(2, "So many slow stretches of a rank count together, as one that comes and goes.")
    min_peers_for_spread: int = count(2, "One peer alone has no spread, so there is no z among the peers.")
    half_gap_share: float = share(
        0.5, "Beside a rank that is named, another may be named that is slower by this share of what matters."
    )

    min_explained_share: float = share(
        0.80,
        "Named ranks explain most of the time that is lost to slow ranks. Else there are others.",
        about="Who it is",
    )
    min_probably_explained_share: float = share(
        0.60, "A probable culprit explains more than all the others together."
    )
    min_likelihood: float = share(
        0.75, "In other steps like these, a probable culprit would mostly be found again."
    )
    max_slow_share_of_role: float = share(
        0.5, "At once fewer of a role may be slow, and in turn no more: if half of it is, which is normal?"
    )
    max_crowded_steps_share: float = share(
        0.05, "In this share of the steps more of a role may be slow at once, as in a hiccup of all."
    )
    min_lockstep_correlation: float = between(
        0.75, "Ranks whose times vary together as much are slow as one: what delays one of them delays all."
    )
    min_level_ratio: float = between(
        0.75, "Ranks that are slow as one are equally slow, to within what noise does to a level."
    )
    min_lockstep_steps: int = count(5, "In fewer steps, the times of two ranks vary together by chance.")
    min_shared_steps_share: float = share(
        0.5, "Slow steps of another rank that mostly are those of the first belong to what is slow there."
    )
    max_apart_correlation: float = between(
        0.4, "Ranks whose times vary together less where they are not slow do not wait for each other there."
    )
    min_host_share: float = share(
        0.5, "If fewer ranks of a host are slow as one, what they share need not be their host."
    )

    max_replay_error_share: float = share(
        0.02,
        "A run that is played again and does not last as long as it did prices nobody.",
        about="What it costs, and what is known",
    )
    min_alike_ranks: int = count(
        3, "So many ranks that did the same show how much one of them differs by chance."
    )
    min_work_share: float = share(
        0.8, "Rows of own work that cover less of the time without communication may miss the slow part."
    )
    min_role_work_share: float = share(
        0.5, "A role is judged by rows that hold most of its work: the rest may be waiting."
    )
    min_outdoing_times: float = factor(
        2.0, "The unlogged time of a rank holds its logged excess, so it is another delay only if it is more."
    )
    most_waiting_share: float = share(
        0.5, "More than this share of all waiting is most of it: then it is waiting for one rank."
    )

    min_growth_steps: int = count(
        10,
        "Medians of fewer steps with much and with little work do not show how a time grows with the work.",
        about="Work",
    )
    min_work_difference: float = positive(
        0.1, "Where a rank's work hardly varies (10%), its times do not show how they grow with the work."
    )
    max_growth_error: float = positive(
        0.25, "An exponent that is less well known is not used: the time is then taken to be proportional."
    )
    min_explained_by_work: float = share(
        0.75, "More work that explains so much of a delay is its cause: the rank is no slower for its work."
    )
    max_explained_by_work: float = share(
        0.25, "More work that explains no more of a delay is not its cause; in between both are."
    )

    min_slower_ranks_share: float = share(
        0.75,
        "All ranks are slower than in their past if so many are: the others may have had a bad past.",
        about="Roles, all ranks, and none in particular",
    )
    min_common_stretches: int = count(
        4, "All ranks together are one series: how far it wanders is told by fewer stretches than of many."
    )
    min_past_steps: int = count(
        20, "A level must be held as long to count as the usual one of the past: a quick moment does not."
    )
    max_lost_share: float = share(
        0.25, "A run that loses more to the slowest rank of each step is not healthy, whoever it is."
    )

    max_cause_chance: float = share(
        0.01,
        "A host counter is a cause if any of them goes with the delay as well less often by chance.",
        about="Causes that host counters show",
    )
    min_covered_share: float = share(
        0.5, "The time that a counter states is most of the delay: else most of it has another cause."
    )
    min_cause_correlation: float = between(
        0.5,
        "A counter must rise and fall with the delay: in long runs, little of it is certain soon.",
    )

    min_transfer_times: float = factor(
        1.5,
        "A transfer that takes so many times the usual is slow: transfers vary more than work does.",
        about="Transfers",
    )
    min_transfer_cost_share: float = share(
        0.05, "Slow transfers that cost less of the run are lost among what networks do by themselves."
    )
    min_transfer_cost_ms: float = positive(
        10.0, "So little time nobody notices, whatever part of a short run it is."
    )
    mostly_transfers_share: float = share(
        0.5, "A run that mostly transfers is not called healthy, even if nothing says what is usual."
    )
    min_transfer_steps: int = count(
        10, "A link that is slow in fewer steps had a bad moment, and what it held for fewer is not usual."
    )
    min_costly_transfer_steps: int = count(
        3, "Fewer steps are enough if they cost more: 1 / (share of the run), but no fewer than these."
    )
    min_alike_links: int = count(3, "Of two links it cannot be said which one is usual.")
    max_slow_links_share: float = share(
        0.5, "If so many groups of a size look slow, they may be of another kind and meant to be."
    )
    min_transfer_noise_sigma: float = positive(
        0.1, "Transfers within 10% are equal, however quiet the network is: the least sigma of log times."
    )
    max_transfer_times: float = factor(
        2.25, "A longer transfer counts as so many times the usual, so that one outlier makes no change."
    )
    quick_transfers_share: float = share(
        0.1, "Only a link with steps far above its quickest ones, this share of all, may have become slow."
    )

    def __post_init__(self) -> None:
        for one in fields(self):
            value, its = getattr(self, one.name), one.metadata
            is_number = isinstance(value, its["kind"]) and not isinstance(value, bool)
            if not (is_number and its["has"](value)):
                is_not = f"{one.name}: {value!r} is not {its['range']}."
                raise ConfigurationError(f"{is_not} Leave it out for the default, {one.default:g}.")

    def numbers(self) -> dict[str, list[Number]]:
        """Return the numbers with their reasons, by what they are about."""
        found: dict[str, list[Number]] = {}
        about = ""
        for one in fields(self):
            about, standard = one.metadata["about"] or about, cast("float", one.default)
            number = Number(one.name, getattr(self, one.name), standard, one.metadata["reason"])
            found.setdefault(about, []).append(number)
        return found

    def differences(self) -> dict[str, float]:
        """Return the numbers that are others than in the standard policy, by name."""
        values = {one: getattr(self, one.name) for one in fields(self)}
        return {one.name: value for one, value in values.items() if value != one.default}


STANDARD = Policy()
"""The policy by which runs are judged unless another is given."""
