"""The result of the search for stragglers: who is slow, in which operation, since when, at what cost, why."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from timing_logger.results.cause import Cause, Sought
from timing_logger.results.facts import BondKind, Fact, Gate, Reason, plain_fact
from timing_logger.results.plain import ShownStep, StepRange, plain_fields
from timing_logger.results.policy import STANDARD, Policy
from timing_logger.results.run_end import RunEnd

VerdictKind = Literal["healthy", "rank", "suspect", "role", "group-wide", "communication", "diffuse", "hang"]

Owner = Literal["", "machine", "work", "both", "role", "unknown"]


class Suspect(NamedTuple):
    """A rank that may be slow, for certain or not, or several ranks that act as one.

    Attributes:
        ranks: one rank; or several that are slow in the same steps by the same amount: all of them if they
            are named, since what they share makes them slow, such as their host; else it may be one of them
            for which the others wait in something that is not logged.
        operation: the operation in which they spent most beyond their peers.
        share: the fraction of the time lost to slow ranks that would be regained if they were like their
            peers, in [0, 1].
        likelihood: how likely they are among the costliest (as many as are named, else one) and cost 1% of
            the run or more, by how costs vary along the run, in [0, 1].
    """

    ranks: tuple[int, ...]
    operation: str
    share: float
    likelihood: float


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict on the ranks of a run: which are slow, at what cost, and why.

    Attributes:
        verdict: ``rank``: the ranks named are slow. ``suspect``: the first of ``suspects`` probably is slow.
            ``role``: all ranks of a role are slow. ``group-wide``: all ranks were slower than in their own
            past. ``communication``: transfers are slow, without waiting. ``diffuse``: much time is lost to
            late ranks, but to none in particular. ``healthy``: none of that. ``hang``: the run hung, and its
            steps before that show none of the others except, perhaps, ``diffuse``; see ``end``.
        ranks: the ranks to look at, the costliest first; for a hang those that the others wait for. Empty
            unless ``rank``, ``role`` or ``hang``.
        hosts: the hosts of these ranks, or of the first suspect's; empty where all ranks run on one host.
        bond: what makes several ranks slow as one: ``host``: these are all ranks of the host, and no other
            rank is slow then. ``part of host``: so many of its ranks as share something there. ``waiting``:
            they wait for each other in something that is not logged, and one of them is slow. ``something``:
            one of these, or another thing that they share. "" if each is slow by itself.
        operation: the operation in which the time is lost; ``UNLOGGED`` if between the rows; "" if no rank is
            slow.
        between: for ``UNLOGGED`` the operations of the rows before and after most of that time; else empty.
        owner: what the delay of the ranks is due to. ``machine``: they are slower for what they have to do,
            through themselves, their host or what they use there. ``work``: they have more to do than their
            peers, and are no slower for that. ``both``. ``role``: a whole role is slower than the others, and
            how much its work should take is not known. ``unknown``: no work is recorded. "" if no rank or
            role is slow, and if the ranks stop for what ``operation`` names, such as a garbage collection.
        cause: what host counters did while the time was lost, beyond chance; None if nothing coincides, or
            no counters were given.
        sought: the counters that were looked at for that; None if none were.
        labels: the role of the first rank, "" if none is stated.
        window: ``persistent``, ``ongoing`` (still slow at the end), ``bounded`` or ``intermittent``; "" if
            there are no slow steps.
        first_iteration, last_iteration: of the slow steps; None if there are none.
        first_epoch, last_epoch: of the slow steps, where iterations restart; else None.
        slow_steps: the number of slow steps; of several ranks those of the first.
        score: relative score, of a rank against its peers, or of a role against other roles; group-wide the
            individual score, against the best past. In (0, 1]; below 0.75 is bad. NaN if no rank is slow.
        recorded_every: how many iterations a recorded step stands for: 10 where every 10th was recorded.
        cost_ms: time in ms by which the run would be shorter without the delay, if the iterations that were
            not recorded are like those that were.
        cost_share: ``cost_ms`` as a fraction of the run.
        suspects: the ranks that may be slow: those in ``ranks`` first, then by cost; also those that cost too
            little.
        judged: whether ``verdict`` is known: something was found, or a comparison with peers shows that no
            rank is slow. If not, ``verdict`` is ``healthy`` only because no rank is named.
        why: why the run is not judged; None if it is.
        not_explained: the fraction of the run that ranks waited, on average, without anything being found
            that explains it: waits that recur in most steps, as those of pipeline stages, do not count.
        lost_in_turn: of a healthy run, the fraction of it for which the slowest rank of each step worked
            longer than the typical one.
        waited_for: the fewest ranks for which most of that was, at most three; for ``diffuse`` those to which
            most of the time is lost. Empty if these would be more, as where ranks are late in turn.
        recurring, recurring_for: likewise for waits that recur in most steps.
        unmatched: the fraction of the run that ranks were in communication of which the rows do not tell for
            whom they waited.
        unjudged_ranks: ranks of which nothing is known, or that had no peer to be compared with.
        in_python: whether the processes ran Python, as far as is known: their code can be timed by name.
        gates: the conditions that decided, in the order in which they were checked.
        evidence: the facts that decided, and what the judgement is based on;
            ``timing_logger.report.evidence_sentences`` has them in words.
        policy: the numbers that decided.
        end: whether the run came to its end, and which ranks hang if not. If a run with slow ranks hangs,
            ``verdict`` tells of the slow ranks, and ``end.hangs`` of the hang.
        step: a typical slow step, which a notebook shows; None if there is none, or it was not asked for. It
            is no part of ``as_dict``, and two verdicts may be equal without it.
        wording: returns it in words: the analysis that makes it hands this in. Likewise no part of it.
    """

    verdict: VerdictKind
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    bond: BondKind = ""
    operation: str = ""
    between: tuple[str, ...] = ()
    owner: Owner = ""
    cause: Cause | None = None
    sought: Sought | None = None
    labels: str = ""
    window: str = ""
    first_iteration: int | None = None
    last_iteration: int | None = None
    first_epoch: int | None = None
    last_epoch: int | None = None
    slow_steps: int = 0
    recorded_every: int = 1
    score: float = math.nan
    cost_ms: float = 0.0
    cost_share: float = 0.0
    suspects: tuple[Suspect, ...] = ()
    judged: bool = True
    why: Reason | None = None
    not_explained: float = 0.0
    lost_in_turn: float = 0.0
    waited_for: tuple[int, ...] = ()
    recurring: float = 0.0
    recurring_for: tuple[int, ...] = ()
    unmatched: float = 0.0
    unjudged_ranks: tuple[int, ...] = ()
    in_python: bool = True
    gates: tuple[Gate, ...] = ()
    evidence: tuple[Fact, ...] = ()
    policy: Policy = STANDARD
    end: RunEnd = field(default_factory=lambda: RunEnd(state="unknown"))
    step: ShownStep | None = field(default=None, compare=False, repr=False)
    wording: Callable[[Verdict], str] | None = field(default=None, compare=False, repr=False)

    drawn_by: ClassVar[Callable[[Verdict], str] | None] = None
    """Returns a verdict as HTML for a notebook: ``report.notebook`` hands this in."""

    @property
    def ranks_to_look_at(self) -> tuple[int, ...]:
        """``ranks``, or those of the first suspect if the verdict is ``suspect``."""
        return self.suspects[0].ranks if self.verdict == "suspect" and self.suspects else self.ranks

    @property
    def when(self) -> str:
        """The range of the slow steps, such as ``iterations 40 to 60 of epoch 2``; "" if there are none."""
        if self.first_iteration is None or self.last_iteration is None:
            return ""
        return StepRange(
            self.first_iteration, self.last_iteration, self.first_epoch, self.last_epoch
        ).in_words()

    def __str__(self) -> str:
        """Return the verdict in words, and what to look at next, as ``timing-logger stragglers`` begins."""
        return self.wording(self) if self.wording else repr(self)

    def _repr_html_(self) -> str | None:
        """Return what a notebook shows: the verdict in words, the step, and the suspects."""
        return Verdict.drawn_by(self) if Verdict.drawn_by else None

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values that JSON can hold, under the names of its attributes.

        Each fact has its code as ``fact``, beside its own values.
        An unknown figure is None. Epochs are included only where iterations restart, and of the policy the
        numbers that are not those of the standard one.
        """
        found = plain_fields(self)
        if self.first_epoch is None:
            del found["first_epoch"], found["last_epoch"]
        found["why"] = plain_fact(self.why) if self.why else None
        found["evidence"] = [plain_fact(fact) for fact in self.evidence]
        return {**found, "policy": self.policy.differences(), "end": self.end.as_dict()}
