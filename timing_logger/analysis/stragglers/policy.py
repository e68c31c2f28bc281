"""The policy by which a run is judged: every number that decides a verdict, and why it is what it is."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from timing_logger.analysis.stragglers.policy_numbers import (
    Number,
    between,
    check_numbers,
    count,
    factor,
    numbers_of,
    positive,
    share,
)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The numbers that decide a verdict; ``Policy(min_cost_share=0.02)`` differs from the standard in one.

    Each has a reason, which ``timing-logger stragglers --why`` and the page on verdicts show.

    Raises:
        ConfigurationError: a number is out of its range.
    """

    # -- what is slow, and what is chance --

    min_score_gap: float = between(
        0.10,
        "A rank whose peers are quicker by less of its time matters too little, however certain that is.",
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

    # -- what a rank must be to be named --

    min_slow_steps: int = count(
        20, "Slow in fewer steps, a rank had a bad moment. A run of fewer steps must make do with all it has."
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

    # -- who it is --

    min_explained_share: float = share(
        0.80, "Named ranks explain most of the time that is lost to slow ranks. Else there are others."
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

    # -- what it costs, and what is known --

    max_replay_error_share: float = share(
        0.02, "A run that is played again and does not last as long as it did prices nobody."
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

    # -- roles, all ranks, and none in particular --

    min_slower_ranks_share: float = share(
        0.75, "All ranks are slower than in their past if so many are: the others may have had a bad past."
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

    # -- transfers --

    min_transfer_times: float = factor(
        1.5, "A transfer that takes so many times the usual is slow: transfers vary more than work does."
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
        check_numbers(self)

    def numbers(self) -> dict[str, list[Number]]:
        """Return the numbers with their reasons, by what they are about."""
        numbers = numbers_of(self)
        begins = [[number.name for number in numbers].index(name) for name in _FIRST_ABOUT.values()]
        spans = pairwise([*begins, len(numbers)])
        return {about: numbers[slice(*span)] for about, span in zip(_FIRST_ABOUT, spans, strict=True)}

    def differences(self) -> dict[str, float]:
        """Return the numbers that are others than in the standard policy, by name."""
        return {number.name: number.value for number in numbers_of(self) if number.differs}


_FIRST_ABOUT = {
    "What is slow, and what is chance": "min_score_gap",
    "What a rank must be to be named": "min_slow_steps",
    "Who it is": "min_explained_share",
    "What it costs, and what is known": "max_replay_error_share",
    "Roles, all ranks, and none in particular": "min_slower_ranks_share",
    "Transfers": "min_transfer_times",
}
"""What numbers are about, and the first of them."""

STANDARD = Policy()
"""The policy by which runs are judged unless another is given."""
