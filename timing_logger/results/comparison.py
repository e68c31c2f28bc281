"""The result of comparing runs: a verdict on the step, what explains it, and what else differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, TypeAlias

from timing_logger.results.run_summary import RunSummary


class CourseOfSide(NamedTuple):
    """How long a step of a side was in each stretch, in ms.

    Attributes:
        median_ms: the median over the runs, of the medians of their steps.
        least_ms, most_ms: of the runs with the shortest and the longest.
    """

    median_ms: tuple[float, ...]
    least_ms: tuple[float, ...]
    most_ms: tuple[float, ...]


class Courses(NamedTuple):
    """The course of both sides, in the stretches that all runs have.

    Attributes:
        counted_by: what is counted: ``iterations``, or ``steps`` where iterations restart.
        width: how many of these a stretch has.
        first: the first of each stretch.
        here, against: the sides.
    """

    counted_by: str
    width: int
    first: tuple[int, ...]
    here: CourseOfSide
    against: CourseOfSide


class Since(NamedTuple):
    """From where on the sides differ otherwise than before.

    Attributes:
        counted_by: what is counted, as of :class:`Courses`.
        first: where the stretch begins from which on they do.
        earliest, latest: between the beginnings of which stretches that lies, with 95% confidence.
        before, after: by which fraction steps are longer than on the other side, until then and since.
        change, low, high: by which fraction they became longer beside the other side, with its interval.
    """

    counted_by: str
    first: int
    earliest: int
    latest: int
    before: float
    after: float
    change: float
    low: float
    high: float


ComparisonVerdict: TypeAlias = Literal["regressed", "improved", "undecided"]
VERDICTS: tuple[ComparisonVerdict, ...] = ("regressed", "improved", "undecided")

Why: TypeAlias = Literal["", "few runs", "few batches", "different steps", "not shown", "small"]
"""Why it is undecided: there are too few runs, or too few batches of a history; the steps of the sides are of
different kinds; the interval includes 0; or it does not, but the change is smaller than the bound."""

Basis: TypeAlias = Literal["", "step", "account"]

Order: TypeAlias = Literal["in turn", "after", "before", "unknown"]
"""When the runs of the one side were made: in turn with those of the other, all after these, or all
before."""

CauseKind: TypeAlias = Literal[
    "rank", "pauses", "bytes", "divided", "count", "new", "gone", "work", "not timed", "transfer", "waiting"
]


Does: TypeAlias = Literal["", "bytes", "divided", "count", "new", "gone"]
"""What is done otherwise in every run of one side than in any of the other: bytes or number of calls of a
step; or something is done on one side only. ``divided``: as many bytes are moved in all, in other messages,
layers or buckets. That is no matter of chance."""


class Unlike(NamedTuple):
    """What the runs of both sides do not have in common, beside their times.

    Attributes:
        about: ``ranks``, ``world size``, ``hosts``, ``steps``; or ``version of NAME`` or ``option NAME``.
        here, against: the values on each side, ascending, as text.
    """

    about: str
    here: tuple[str, ...]
    against: tuple[str, ...]


@dataclass(frozen=True)
class Shift:
    """By how much the runs of one side differ from those of the other, in the unit of their values.

    Attributes:
        estimate: the difference of the means.
        low, high: the ends of its interval; infinite where the runs are too few for one.
        p: how likely so large a difference is if both sides are alike; NaN where the runs are too few.
        spread: how far the runs of a side lie apart, as a standard deviation; of both sides together; NaN
            where each side has one.
    """

    estimate: float
    low: float
    high: float
    p: float
    spread: float

    @property
    def is_shown(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


class StepChange(NamedTuple):
    """By how much the step changed.

    Attributes:
        ms, against_ms: how long a step takes: the geometric mean over the runs of each side.
        change: the change as a fraction: 0.05 for 5% slower.
        low, high: the ends of its interval.
        p: how likely so large a change is by chance; NaN where there are too few runs.
        spread: how far the runs of a side lie apart, as a fraction (a standard deviation); NaN if unknown.
        finds: the slowdown that nine of ten comparisons of so many such runs find; infinite if none.
        runs_needed: how many runs of each side would decide, if the change is as estimated, or as large as
            the bound, if the estimate is less; None if unknown, or more than a thousand.
    """

    ms: float
    against_ms: float
    change: float
    low: float
    high: float
    p: float
    spread: float
    finds: float
    runs_needed: int | None


class PartChange(NamedTuple):
    """By how much a part of the step changed.

    Attributes:
        part: ``own work``, ``not timed``, ``transfer`` or ``waiting``, as the account has them.
        ms, against_ms: what it takes in a step, the means over the runs of each side.
        change_ms, low_ms, high_ms: their difference, and its interval.
        is_shown: whether the interval excludes 0.
    """

    part: str
    ms: float
    against_ms: float
    change_ms: float
    low_ms: float
    high_ms: float
    is_shown: bool


class Difference(NamedTuple):
    """What one thing takes on each side, of an average step of an average rank.

    Attributes:
        kind, operation, phase, group, layer, rank: as of
            :class:`timing_logger.results.run_summary.Quantity`.
        n_runs, n_against: in how many runs of each side it occurs.
        ms, against_ms: the means over the runs of each side; 0 where it does not occur.
        shift: their difference in ms, with its interval.
        is_named: whether it is beyond chance, as one of many differences that were looked at.
        does: what is done otherwise, whatever it takes.
        n_rows, against_rows: how many rows.
        bytes, against_bytes: how many bytes; None if not stated.
    """

    kind: str
    operation: str
    phase: str
    group: str
    layer: str
    rank: int | None
    n_runs: int
    n_against: int
    ms: float
    against_ms: float
    shift: Shift
    is_named: bool
    does: Does
    n_rows: float
    against_rows: float
    bytes: float | None
    against_bytes: float | None


class NewCause(NamedTuple):
    """Something that changed, and explains a part of what the step changed by.

    Attributes:
        kind: ``rank``: a rank is slow on one side only. ``pauses``: a pause of the interpreter takes more or
            less time. ``bytes``, ``count``: an operation has more or fewer bytes, or is made more or less
            often. ``divided``: it has as many bytes, divided among other calls, layers or buckets. ``new``,
            ``gone``: an operation is made on one side only. ``work``: own work takes longer
            or shorter. ``not timed``, ``transfer``, ``waiting``: a part of the account does.
        operation, layer: what it is about; "" if no single one.
        ranks: the ranks, for ``rank``; those of the side where they are slow.
        ms, against_ms: what it takes in a step, on each side.
        amount, against_amount: bytes or counts of a step, on each side; for ``rank`` the part of the runs
            that name it; else None.
    """

    kind: CauseKind
    operation: str
    layer: str
    ranks: tuple[int, ...]
    ms: float
    against_ms: float
    amount: float | None = None
    against_amount: float | None = None


class Side(NamedTuple):
    """The runs of a side.

    Attributes:
        runs: their summaries.
        n_units: how many of them are independent: batches, where a history is compared, else runs.
    """

    runs: Sequence[RunSummary]
    n_units: int


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The result of comparing the runs of one side with those of the other.

    Attributes:
        verdict: ``regressed``: a step takes longer, by at least the bound, and its interval excludes 0.
            ``improved``: it takes less. ``undecided``: neither is shown.
        why: why it is undecided; "" if it is not.
        basis: what shows it: ``step``: the step as a whole. ``account``: that takes too different times in
            equal runs, but some of its parts do not, and do show it. "" if it is undecided.
        step: by how much the step changed.
        parts: by how much its parts did; empty where there are too few runs.
        bound: the least change that is called so, as a fraction.
        paired: whether the runs were compared pair by pair.
        in_batches: whether batches count, not runs.
        causes: what explains the change, what says most first. While the verdict is undecided, only what is
            done otherwise: more bytes, other operations.
        differences: what else was compared, the largest first.
        courses: how long steps were in the course of the runs; None where these have no stretch in common.
        since: from where on the sides differ otherwise than before; None where that is not shown.
        unlike: what the sides do not have in common.
        order: when the runs were made.
        here, against: the runs of both sides.
    """

    verdict: ComparisonVerdict
    why: Why
    basis: Basis
    step: StepChange
    parts: tuple[PartChange, ...]
    bound: float
    paired: bool
    in_batches: bool
    causes: tuple[NewCause, ...]
    differences: tuple[Difference, ...]
    courses: Courses | None
    since: Since | None
    unlike: tuple[Unlike, ...]
    order: Order
    here: Side
    against: Side

    @property
    def shown_ms(self) -> float:
        """By how many ms a step changed, by what the verdict is based on; 0 while it is undecided."""
        if self.basis == "account":
            return sum(one.change_ms for one in self.parts if one.is_shown)
        return self.step.ms - self.step.against_ms if self.basis else 0.0

    @property
    def not_told(self) -> dict[str, list[str]]:
        """What the sources of imported runs do not tell, as of ``RunSummary``."""
        found: dict[str, dict[str, None]] = {}
        for run in (*self.here.runs, *self.against.runs):
            for kind, names in run.not_told.items():
                found.setdefault(kind, {}).update(dict.fromkeys(names))
        return {kind: [*names] for kind, names in found.items()}

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values; what is infinite or unknown is so here, too."""
        plain = {
            "account" if one.name == "parts" else one.name: _plain(getattr(self, one.name))
            for one in fields(self)
        }
        return {**plain, "here": _side(self.here), "against": _side(self.against)}


def _plain(value: Any) -> Any:
    """Return what a comparison holds as plain values; the shift of a difference among its own."""
    if not hasattr(value, "_asdict"):
        return [_plain(one) for one in value] if isinstance(value, tuple) else value
    plain = value._asdict()
    if isinstance(value, Difference):
        shift = plain.pop("shift")
        plain |= {"change_ms": shift.estimate, "low_ms": shift.low, "high_ms": shift.high, "p": shift.p}
    return {name: one._asdict() if hasattr(one, "_asdict") else one for name, one in plain.items()}


def _side(side: Side) -> dict[str, Any]:
    kept = (
        "run_id",
        "began_unix_ns",
        "commit",
        "n_ranks",
        "n_steps",
        "step_mean_ms",
        "step_median_ms",
        "batch",
    )
    runs = [{name: getattr(run, name) for name in kept} for run in side.runs]
    return {"n_units": side.n_units, "runs": runs}
