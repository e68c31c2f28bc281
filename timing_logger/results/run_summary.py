"""What is kept of a run to compare it with others: a few kilobytes, whatever its size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from timing_logger.errors import RunSummaryError
from timing_logger.schema.typed_json import Rules, checked

SCHEMA_VERSION = 1

StepKind: TypeAlias = Literal["iterations", "rounds", "run"]
"""What a step is: what the program recorded as iteration; a round of the collectives that repeat, where none
is recorded; or the run as a whole, where nothing repeats."""

CourseKind: TypeAlias = Literal["iterations", "steps"]
"""What is counted in the course of a run: iterations, or rounds where no iteration is recorded; or the steps
themselves, from 0 on, where iterations restart."""


OF_RANK = ("own work", "not timed")
"""The parts of the account that are kept for each rank: what it spends on its own account."""


class Quantity(NamedTuple):
    """What an average rank spends in an average step on one thing.

    Attributes:
        kind: ``operation``: the rows of an operation with this phase and in this group. ``layer``: those of
            an operation with this layer name. ``account``: a part of the account of the wall time, named by
            ``operation``: ``own work``, ``not timed``, ``transfer``, ``waiting`` or ``not matched``.
            ``rank``: ``own work`` or ``not timed`` of one rank, in runs of few ranks.
        operation, phase, group, layer: what the rows have in common; "" where that is not told apart.
        rank: of ``rank``; else None.
        mean_ms: the mean over steps and ranks. Intervals that ``WAIT`` rows share count once.
        median_ms: the median over steps, averaged over ranks; None for parts of the account.
        n_rows: the number of rows.
        bytes: the sum of ``message_size_bytes``; None where no row states one.
    """

    kind: str
    operation: str
    phase: str
    group: str
    layer: str
    rank: int | None
    mean_ms: float
    median_ms: float | None
    n_rows: float
    bytes: float | None

    @property
    def what(self) -> tuple[str, str, str, str, str, int | None]:
        """What tells a quantity from others: runs are compared in what is equal here."""
        return self[:6]


class SummarizedVerdict(NamedTuple):
    """What ``stragglers`` said of the run, as far as comparing needs it.

    Attributes:
        verdict, judged, ranks, operation: as of :class:`timing_logger.analysis.Verdict`.
        cost_ms: the cost per step, in ms.
    """

    verdict: str
    judged: bool
    ranks: list[int]
    operation: str
    cost_ms: float


class Course(NamedTuple):
    """How long steps were in the course of a run: at most 64 stretches.

    Attributes:
        counted_by: what is counted, a :data:`CourseKind`.
        width: how many of these a stretch has: a power of two.
        first: the first of each stretch, ascending: a multiple of ``width``.
        median_ms: the median of its steps, each the mean over the ranks.
        n_steps: how many steps it has.
    """

    counted_by: str
    width: int
    first: list[int]
    median_ms: list[float]
    n_steps: list[int]


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """What is kept of a run to compare it with others.

    Attributes:
        run_id: as the sidecars state it; "" if they do not.
        began_unix_ns, ended_unix_ns: when the first process began, and the last wrote, in ns since 1970; None
            if unknown.
        n_ranks: how many ranks have rows.
        world_size: how many ranks there were; None if unknown.
        hosts: the names of the hosts, ascending.
        versions: versions of Python and packages, as the sidecars state them. If ranks state several, all.
        commit: the commit of the repository that the program was in, as the sidecars state it; "" if unknown.
        options: the options of the loggers that change what is recorded, as JSON. If ranks state several,
            all.
        steps_are: what a step is.
        n_steps: how many steps count, of the rank that has most.
        n_warm_up: how many steps before those were left out, see ``analysis/comparison/quantities.py``.
        not_told: what the sources of imported files do not tell, by the kind of the import and the names of
            ``sidecar.NOT_TOLD``.
        n_lost: records that a logger counted as dropped, and lines that were not read.
        step_mean_ms, step_median_ms: how long a step takes: mean and median over steps, averaged over ranks.
            For ``run`` it is the wall time.
        quantities: where that time goes, the longest first.
        n_left_out: how many quantities are not among these, as they take little.
        verdict: who is slow in the run.
        course: how long steps were in the course of the run; None where that is not known: in a run that is
            one step, of which only some ranks count alike, or that an earlier version summarized.
        batch: which runs were added to a history together; "" outside of one. These share what the machine
            was like at the time.
    """

    schema_version: int = SCHEMA_VERSION
    run_id: str = ""
    began_unix_ns: int | None = None
    ended_unix_ns: int | None = None
    n_ranks: int
    world_size: int | None = None
    hosts: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    commit: str = ""
    options: dict[str, str] = field(default_factory=dict)
    steps_are: str = "iterations"
    n_steps: int
    n_warm_up: int = 0
    not_told: dict[str, list[str]] = field(default_factory=dict)
    n_lost: int = 0
    step_mean_ms: float
    step_median_ms: float
    quantities: list[Quantity]
    n_left_out: int = 0
    verdict: SummarizedVerdict | None = None
    course: Course | None = None
    batch: str = ""

    @property
    def identity(self) -> tuple[str, int] | None:
        """What tells the run from all others; None where its sidecars do not state it."""
        return (self.run_id, self.began_unix_ns) if self.run_id and self.began_unix_ns is not None else None

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as plain values that JSON can hold."""
        plain = asdict(self)
        plain["quantities"] = [one._asdict() for one in self.quantities]
        plain["verdict"] = self.verdict and self.verdict._asdict()
        plain["course"] = self.course and self.course._asdict()
        return plain


_RULES = Rules(whole=(Course, Quantity, SummarizedVerdict))
_NEEDED = ("n_ranks", "n_steps", "steps_are", "step_mean_ms", "step_median_ms", "quantities")


def summary_from(content: object) -> RunSummary:
    """Return the summary that JSON has, as ``RunSummary.as_dict`` made it. Any value may be hostile.

    Raises:
        RunSummaryError: it is no summary, or of a later version.
    """
    if not isinstance(content, Mapping):
        raise RunSummaryError("it holds no JSON object")
    version = content.get("schema_version")
    if type(version) is not int or not 1 <= version <= SCHEMA_VERSION:
        raise RunSummaryError(f"it is of version {str(version)[:20]}, and {SCHEMA_VERSION} is known here")
    names = RunSummary.__dataclass_fields__
    found = checked({name: content[name] for name in names if name in content}, RunSummary, _RULES)
    lacking = [name for name in _NEEDED if name not in found.value]
    if found.problems or lacking:
        raise RunSummaryError(f"{(found.problems or lacking)[0]!r} is missing or of another type")
    summary = RunSummary(**{**found.value, **_nested(found.value)})
    if not summary.step_mean_ms > 0 or not summary.step_median_ms > 0 or not summary.n_steps > 0:
        raise RunSummaryError("it states no step that takes time")
    values = [summary.step_mean_ms, summary.step_median_ms]
    for one in summary.quantities:
        values += one.mean_ms, one.median_ms or 0.0, one.n_rows, one.bytes or 0.0
    beyond = min(values) < 0 or max(values) > _MOST
    if beyond or not _is_sound(summary.course) or summary.steps_are not in get_args(StepKind):
        raise RunSummaryError("it states values that no run has")
    return summary


def _nested(content: Mapping[str, Any]) -> dict[str, Any]:
    stated, course = content.get("verdict"), content.get("course")
    return {
        "quantities": [Quantity(*(one[name] for name in Quantity._fields)) for one in content["quantities"]],
        "verdict": stated and SummarizedVerdict(*(stated[name] for name in SummarizedVerdict._fields)),
        "course": course and Course(*(course[name] for name in Course._fields)),
    }


_MOST = 1e18  # in ms or bytes: 30 million years, and an exabyte


def _is_sound(course: Course | None) -> bool:
    """Tell whether the stretches of a course are some that a run has."""
    if course is None:
        return True
    first, ms, n_steps = course.first, course.median_ms, course.n_steps
    return (
        course.counted_by in get_args(CourseKind)
        and 1 <= course.width <= _MOST
        and 1 <= len(first) == len(ms) == len(n_steps) <= MOST_STRETCHES
        and first == sorted({one // course.width * course.width for one in first})
        and 0 < min(ms) <= max(ms) <= _MOST
        and min(n_steps) > 0
    )


# -- how much of a run its summary keeps, and of how many runs is told: bounds, which decide nothing -----


MOST_RUNS_NAMED = 1000
"""Where more runs than that would be needed, the number is not told: nobody makes them."""

MOST_RANKS = 16
"""In runs of more ranks, own time is not kept for each."""

MOST_OPERATIONS, MOST_LAYERS = 40, 40
"""How many operations and layers are kept of a run, those that take longest: some ten kilobytes."""

MOST_STRETCHES = 64
"""Of how many stretches the course of a run is kept: as many as a chart shows, in two kilobytes."""
