"""The table of the figures of a run in progress: what each is called, its unit, and how it is found.

A name has the form that Prometheus wants: what is measured, its base unit, and ``_total`` for what only
grows. OpenTelemetry states the unit apart, and what translates its names into those of Prometheus arrives at
the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from timing_logger.live.worst_ranks import named_by
from timing_logger.results.run_end import RunState
from timing_logger.results.verdict import VerdictKind

if TYPE_CHECKING:
    from timing_logger.engine.changes import Change
    from timing_logger.live.snapshot import RankNow, Snapshot

PREFIX = "timing_logger"

_SPREAD: Mapping[str, Callable[[list[float]], float]] = {"min": min, "median": median, "max": max}


class SeenJob(NamedTuple):
    """What figures are made of: a look at a job.

    Attributes:
        snapshot: the state of the run.
        change: the last change that was told; None if there was none.
        unix_s: the current time in seconds since 1970.
        operation: that of the verdict, as a label.
        worst: the ranks with figures of their own.
    """

    snapshot: Snapshot
    change: Change | None
    unix_s: float
    operation: str
    worst: list[RankNow]


Points = Iterator[tuple[dict[str, str], "float | None"]]
"""Values with their labels; a value that is not known is None or not finite."""


@dataclass(frozen=True)
class Series:
    """A row of the table of figures.

    Attributes:
        name: what is measured, without its unit; ``ratio`` at its end is none.
        unit: ``s``, ``1`` for a ratio, ``{row}`` for a count, ``{row}/s`` for a rate, "" for a plain number.
        help: what it means, in a sentence.
        of: finds its values.
        labels: the names of its labels.
        counts: whether it only grows, from the beginning of the run on.
    """

    name: str
    unit: str
    help: str
    of: Callable[[SeenJob], Points]
    labels: tuple[str, ...] = ()
    counts: bool = False

    @property
    def full_name(self) -> str:
        """The name in Prometheus, as ``timing_logger_step_seconds``."""
        unit = "_seconds" if self.unit == "s" else "_per_second" if self.unit.endswith("/s") else ""
        return f"{PREFIX}_{self.name}{unit}{'_total' if self.counts else ''}"


# -- how values are found ----------------------------------------------------------------------------------


def _one(value: Callable[[SeenJob], float | None]) -> Callable[[SeenJob], Points]:
    """Return what finds a series of one value."""
    return lambda seen: iter([({}, value(seen))])


def _spread(value: Callable[[RankNow, SeenJob], float | None]) -> Callable[[SeenJob], Points]:
    """Return what finds the least, the median and the largest value of all ranks."""

    def points(seen: SeenJob) -> Points:
        known = _known(value(now, seen) for now in seen.snapshot.ranks)
        return (({"stat": name}, of(known)) for name, of in _SPREAD.items() if known)

    return points


def _sum(value: Callable[[RankNow], float | None]) -> Callable[[SeenJob], Points]:
    """Return what finds the sum over all ranks of which the value is known."""

    def points(seen: SeenJob) -> Points:
        known = _known(map(value, seen.snapshot.ranks))
        return iter([({}, sum(known) if known else None)])

    return points


def _of_rank(
    name: str,
    unit: str,
    help: str,
    value: Callable[[RankNow, SeenJob], float | None],
    *,
    counts: bool = False,
) -> Series:
    """Return a row of the table with the value of each of the worst ranks."""

    def points(seen: SeenJob) -> Points:
        return (({"rank": str(now.rank)}, value(now, seen)) for now in seen.worst)

    return Series(f"rank_{name}", unit, help, points, ("rank",), counts)


def _states(label: str, states: Any, present: Callable[[SeenJob], str]) -> Callable[[SeenJob], Points]:
    """Return what finds for each state of a type whether it is the present one: 1 or 0."""
    return lambda seen: (({label: one}, float(one == present(seen))) for one in get_args(states))


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def _iterations_per_s(now: RankNow, seen: SeenJob) -> float:
    """Return the rate with the iterations that were not recorded."""
    return now.iterations_per_s * seen.snapshot.verdict.recorded_every


def _step_s(now: RankNow, seen: SeenJob) -> float | None:
    rate = _iterations_per_s(now, seen)
    return 1 / rate if rate > 0 else None


def _is_named(now: RankNow, seen: SeenJob) -> bool:
    return now.rank in named_by(seen.snapshot)


def _latest_epoch(seen: SeenJob) -> float | None:
    return max((now.epoch for now in seen.snapshot.ranks if now.epoch is not None), default=None)


def _stands(seen: SeenJob) -> float:
    return float(seen.change is not None and seen.change.kind != "ends")


def _change_time(seen: SeenJob) -> Points:
    if seen.change:
        yield {"change": seen.change.kind}, seen.change.unix_s


def _verdict_info(seen: SeenJob) -> Points:
    verdict = seen.snapshot.verdict
    cause = verdict.cause.name if verdict.cause else ""
    labels = {"operation": seen.operation, "owner": verdict.owner, "cause": cause, "window": verdict.window}
    yield {"verdict": verdict.verdict, **labels}, 1.0


# -- the table ---------------------------------------------------------------------------------------------

OF_JOB = (
    Series(
        "ranks", "{rank}", "Ranks that have a timing file.",
        _one(lambda seen: len(seen.snapshot.ranks)),
    ),
    Series(
        "closed_ranks", "{rank}", "Ranks that have closed their log, as at the end of a run.",
        _one(lambda seen: sum(now.closed for now in seen.snapshot.ranks)),
    ),
    Series(
        "gone_ranks", "{rank}", "Ranks that were killed, or fell silent long before the others.",
        _one(lambda seen: len(seen.snapshot.end.gone)),
    ),
    Series(
        "named_ranks", "{rank}", "Ranks to look at: slow, suspected, waited for in a hang, or gone.",
        _one(lambda seen: len(named_by(seen.snapshot))),
    ),
    Series(
        "window", "s", "The time that the figures are of: the last seconds of the run.",
        _one(lambda seen: seen.snapshot.window_s),
    ),
    Series(
        "look_timestamp", "s", "When the figures were made, in Unix time: what follows the run is alive.",
        _one(lambda seen: seen.unix_s),
    ),
    Series(
        "iteration", "", "The latest iteration of a rank.",
        _spread(lambda now, _: now.iteration), ("stat",),
    ),
    Series("epoch", "", "The latest epoch of any rank, where iterations restart.", _one(_latest_epoch)),
    Series(
        "iterations", "{iteration}/s", "Iterations of a rank per second.",
        _spread(_iterations_per_s), ("stat",),
    ),
    Series("step", "s", "Mean time of an iteration of a rank.", _spread(_step_s), ("stat",)),
    Series(
        "communication_ratio", "1", "Share of a rank's time in communication, waiting included.",
        _spread(lambda now, _: now.communication_share), ("stat",),
    ),
    Series(
        "waiting_ratio", "1", "Share of a rank's time in which it waited for others.",
        _spread(lambda now, _: now.waited_share), ("stat",),
    ),
    Series(
        "silence", "s", "Time since a rank's file was last written to.",
        _spread(lambda now, _: now.silent_s), ("stat",),
    ),
    Series("rows", "{row}/s", "Rows per second, of all ranks.", _sum(lambda now: now.rows_per_s)),
    Series(
        "rows_written", "{row}", "Rows written since the run began, of all ranks.",
        _sum(lambda now: now.written), counts=True,
    ),
    Series(
        "rows_dropped", "{row}", "Records lost since the run began, of all ranks.",
        _sum(lambda now: now.dropped), counts=True,
    ),
    Series(
        "open_calls", "{call}", "Calls that have not returned, of all ranks.",
        _sum(lambda now: now.unfinished),
    ),
    Series("hang", "", "1 if the run hangs, else 0.", _one(lambda seen: seen.snapshot.end.hangs)),
    Series(
        "run_state", "", "1 for the present state of the run, 0 for the others.",
        _states("state", RunState, lambda seen: seen.snapshot.end.state), ("state",),
    ),
    Series(
        "verdict", "", "1 for the verdict on the window, 0 for the others.",
        _states("verdict", VerdictKind, lambda seen: seen.snapshot.verdict.verdict), ("verdict",),
    ),
    Series(
        "verdict_info", "", "1, with what the verdict on the window says as labels.",
        _verdict_info, ("verdict", "operation", "owner", "cause", "window"),
    ),
    Series(
        "cost_ratio", "1", "Share of the window that is lost to what the verdict names.",
        _one(lambda seen: seen.snapshot.verdict.cost_share),
    ),
    Series(
        "lost_in_turn_ratio", "1", "Share of the window that is lost to ranks that are late in turn.",
        _one(lambda seen: seen.snapshot.verdict.lost_in_turn),
    ),
    Series(
        "unexplained_waiting_ratio", "1", "Share of the window in which ranks waited for no known reason.",
        _one(lambda seen: seen.snapshot.verdict.not_explained),
    ),
    Series(
        "alert", "", "1 from when something is told to be slow or to hang until that is over, else 0.",
        _one(_stands),
    ),
    Series(
        "change_timestamp", "s", "When something was last told, in Unix time: it begins, changes or ends.",
        _change_time, ("change",),
    ),
)  # fmt: skip
"""The figures of the job as a whole."""

OF_RANK = (
    _of_rank("named", "", "1 if the rank is one to look at, else 0.", _is_named),
    _of_rank("closed", "", "1 if the rank has closed its log, else 0.", lambda now, _: now.closed),
    _of_rank("iteration", "", "The latest iteration of the rank.", lambda now, _: now.iteration),
    _of_rank("step", "s", "Mean time of an iteration of the rank.", _step_s),
    _of_rank(
        "communication_ratio", "1", "Share of the rank's time in communication, waiting included.",
        lambda now, _: now.communication_share,
    ),
    _of_rank(
        "waiting_ratio", "1", "Share of the rank's time in which it waited for others.",
        lambda now, _: now.waited_share,
    ),
    _of_rank(
        "silence", "s", "Time since the rank's file was last written to.", lambda now, _: now.silent_s,
    ),
    _of_rank(
        "rows_written", "{row}", "Rows that the rank has written since the run began.",
        lambda now, _: now.written, counts=True,
    ),
    _of_rank(
        "rows_dropped", "{row}", "Records of the rank that were lost since the run began.",
        lambda now, _: now.dropped, counts=True,
    ),
    _of_rank(
        "open_calls", "{call}", "Calls of the rank that have not returned.", lambda now, _: now.unfinished,
    ),
)  # fmt: skip
"""The figures of each of the worst ranks."""

SERIES = OF_JOB + OF_RANK
