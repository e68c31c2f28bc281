"""What is said of a run: who is slow, in which phase, since when, at what cost; and why that may be said."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from timing_logger.analysis.hangs.run_end import RunEnd
from timing_logger.analysis.steps import StepRange

VerdictKind = Literal["healthy", "rank", "suspect", "role", "group-wide", "communication", "diffuse", "hang"]


class Gate(NamedTuple):
    """One condition that had to hold.

    Attributes:
        name: what was measured.
        value: the figure; NaN if it could not be told.
        bound: what it had to reach.
        passed: whether it did.
    """

    name: str
    value: float
    bound: float
    passed: bool


class Suspect(NamedTuple):
    """Who may be slow, certain or not.

    Attributes:
        ranks: one; or several that act as one, since they wait for each other in something that is not
            logged: then it is one of these.
        phase: the operation in which they spent most beyond their peers.
        share: the part of the time lost to slow ranks that comes back if they are like their peers, in
            [0, 1].
        likelihood: in what part of the runs that are drawn anew from the steps of this one they are among the
            costliest (as many as are named, else one) and cost 1% of the run or more, in [0, 1].
    """

    ranks: tuple[int, ...]
    phase: str
    share: float
    likelihood: float


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer to "who is slow?".

    Attributes:
        verdict: ``rank``: the ranks named are slow. ``suspect``: the first of ``suspects`` probably is.
            ``role``: all ranks of a role are slow. ``group-wide``: all ranks were, against their own past.
            ``communication``: transfers are, without waiting. ``diffuse``: much time is lost to late
            ranks, but no rank owns it. ``healthy``: none of that. ``hang``: the run hung, and of the steps
            before that none of the others but ``diffuse`` can be said; see ``end``.
        ranks: whom to look at, the costliest first; of a hang those whom the others wait for. Empty
            unless ``rank``, ``role`` or ``hang``.
        phase: the operation in which the time goes; ``UNLOGGED`` if between the rows; "" if nobody is slow.
        labels: the role of the first rank, "" if none is stated.
        window: ``persistent``, ``ongoing`` (still so at the end), ``bounded`` or ``intermittent``; "".
        first_iteration, last_iteration: of the slow steps; None if there are none.
        first_epoch, last_epoch: theirs, where iterations restart; else None.
        score: relative score, of a rank against its peers, of a role against other roles; group-wide
            the individual score, against the best past. In (0, 1]; below 0.75 is bad. NaN if nobody is slow.
        cost_ms: time by which the run would be shorter without it, over the steps recorded.
        cost_share: the same as a part of the run.
        suspects: who may be slow: those in ``ranks`` first, then by cost; also those that cost too little.
        judged: whether ``verdict`` is known: something was found, or a comparison with peers shows that
            nobody is slow. If not, ``verdict`` is ``healthy`` only because nobody is named.
        why: why it is not judged; "" if it is.
        unjudged_ranks: of whom nothing is known, or who had no peer to be compared with.
        gates: what decided, in the order of judging.
        evidence: the same in sentences, and what the judgement rests on.
        end: whether the run came to its end, and who hangs if not. A run may hang that has slow ranks: then
            ``verdict`` tells of these, and ``end.hangs`` of that.
    """

    verdict: VerdictKind
    ranks: tuple[int, ...] = ()
    phase: str = ""
    labels: str = ""
    window: str = ""
    first_iteration: int | None = None
    last_iteration: int | None = None
    first_epoch: int | None = None
    last_epoch: int | None = None
    score: float = math.nan
    cost_ms: float = 0.0
    cost_share: float = 0.0
    suspects: tuple[Suspect, ...] = ()
    judged: bool = True
    why: str = ""
    unjudged_ranks: tuple[int, ...] = ()
    gates: tuple[Gate, ...] = ()
    evidence: tuple[str, ...] = ()
    end: RunEnd = field(default_factory=lambda: RunEnd(state="unknown"))

    @property
    def when(self) -> str:
        """``iterations 40 to 60 of epoch 2``; "" if there are no slow steps."""
        if self.first_iteration is None or self.last_iteration is None:
            return ""
        return StepRange(
            self.first_iteration, self.last_iteration, self.first_epoch, self.last_epoch
        ).in_words()

    def as_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold, None for an unknown figure; epochs where iterations restart."""
        return {
            "verdict": self.verdict,
            "ranks": list(self.ranks),
            "phase": self.phase,
            "labels": self.labels,
            "window": self.window,
            "first_iteration": self.first_iteration,
            "last_iteration": self.last_iteration,
            **({} if self.first_epoch is None else self._epochs()),
            "score": _finite(self.score),
            "cost_ms": _finite(self.cost_ms),
            "cost_share": _finite(self.cost_share),
            "suspects": [
                {
                    **suspect._asdict(),
                    "ranks": list(suspect.ranks),
                    "share": _finite(suspect.share),
                    "likelihood": _finite(suspect.likelihood),
                }
                for suspect in self.suspects
            ],
            "judged": self.judged,
            "why": self.why,
            "unjudged_ranks": list(self.unjudged_ranks),
            "gates": [
                {
                    "name": gate.name,
                    "value": _finite(gate.value),
                    "bound": _finite(gate.bound),
                    "passed": bool(gate.passed),
                }
                for gate in self.gates
            ],
            "evidence": list(self.evidence),
            "end": self.end.as_dict(),
        }

    def _epochs(self) -> dict[str, Any]:
        return {"first_epoch": self.first_epoch, "last_epoch": self.last_epoch}


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
