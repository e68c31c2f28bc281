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

from timing_logger.results.run_end import RunState
from timing_logger.results.verdict import VerdictKind

if TYPE_CHECKING:
    from timing_logger.engine.changes import Change
    from timing_logger.live.watcher import RankNow, Snapshot

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


def _one(name: str, unit: str, help: str, value: Callable[[SeenJob], float | None]) -> Series:
    """Return a row of the table with one value."""
    return Series(name, unit, help, lambda seen: iter([({}, value(seen))]))


def _spread(name: str, unit: str, help: str, value: Callable[[RankNow, SeenJob], float | None]) -> Series:
    """Return a row of the table with the least, the median and the largest value of all ranks."""

    def points(seen: SeenJob) -> Points:
        known = _known(value(now, seen) for now in seen.snapshot.ranks)
        return (({"stat": name}, of(known)) for name, of in _SPREAD.items() if known)

    return Series(name, unit, help, points, ("stat",))


def _sum(
    name: str, unit: str, help: str, value: Callable[[RankNow], float | None], *, counts: bool = False
) -> Series:
    """Return a row of the table with the sum over all ranks of which the value is known."""

    def points(seen: SeenJob) -> Points:
        known = _known(map(value, seen.snapshot.ranks))
        return iter([({}, sum(known) if known else None)])

    return Series(name, unit, help, points, counts=counts)


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


def _states(name: str, help: str, label: str, states: Any, present: Callable[[SeenJob], str]) -> Series:
    """Return a row of the table that tells for each state of a type whether it is the present one: 1 or 0."""

    def points(seen: SeenJob) -> Points:
        return (({label: one}, float(one == present(seen))) for one in get_args(states))

    return Series(name, "", help, points, (label,))


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def _iterations_per_s(now: RankNow, seen: SeenJob) -> float:
    """Return the rate with the iterations that were not recorded."""
    return now.iterations_per_s * seen.snapshot.verdict.recorded_every


def _step_s(now: RankNow, seen: SeenJob) -> float | None:
    rate = _iterations_per_s(now, seen)
    return 1 / rate if rate > 0 else None


def _is_named(now: RankNow, seen: SeenJob) -> bool:
    return now.rank in seen.snapshot.named


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
    _one("ranks", "{rank}", "Ranks that have a timing file.", lambda seen: len(seen.snapshot.ranks)),
    _one(
        "closed_ranks", "{rank}", "Ranks that have closed their log, as at the end of a run.",
        lambda seen: sum(now.closed for now in seen.snapshot.ranks),
    ),
    _one(
        "gone_ranks", "{rank}", "Ranks that were killed, or fell silent long before the others.",
        lambda seen: len(seen.snapshot.end.gone),
    ),
    _one(
        "named_ranks", "{rank}", "Ranks to look at: slow, suspected, waited for in a hang, or gone.",
        lambda seen: len(seen.snapshot.named),
    ),
    _one(
        "window", "s", "The time that the figures are of: the last seconds of the run.",
        lambda seen: seen.snapshot.window_s,
    ),
    _one(
        "look_timestamp", "s", "When the figures were made, in Unix time: what follows the run is alive.",
        lambda seen: seen.unix_s,
    ),
    _spread("iteration", "", "The latest iteration of a rank.", lambda now, _: now.iteration),
    _one("epoch", "", "The latest epoch of any rank, where iterations restart.", _latest_epoch),
    _spread("iterations", "{iteration}/s", "Iterations of a rank per second.", _iterations_per_s),
    _spread("step", "s", "Mean time of an iteration of a rank.", _step_s),
    _spread(
        "communication_ratio", "1", "Share of a rank's time in communication, waiting included.",
        lambda now, _: now.communication_share,
    ),
    _spread(
        "waiting_ratio", "1", "Share of a rank's time in which it waited for others.",
        lambda now, _: now.waited_share,
    ),
    _spread("silence", "s", "Time since a rank's file was last written to.", lambda now, _: now.silent_s),
    _sum("rows", "{row}/s", "Rows per second, of all ranks.", lambda now: now.rows_per_s),
    _sum(
        "rows_written", "{row}", "Rows written since the run began, of all ranks.",
        lambda now: now.written, counts=True,
    ),
    _sum(
        "rows_dropped", "{row}", "Records lost since the run began, of all ranks.",
        lambda now: now.dropped, counts=True,
    ),
    _sum("open_calls", "{call}", "Calls that have not returned, of all ranks.", lambda now: now.unfinished),
    _one("hang", "", "1 if the run hangs, else 0.", lambda seen: seen.snapshot.end.hangs),
    _states(
        "run_state", "1 for the present state of the run, 0 for the others.",
        "state", RunState, lambda seen: seen.snapshot.end.state,
    ),
    _states(
        "verdict", "1 for the verdict on the window, 0 for the others.",
        "verdict", VerdictKind, lambda seen: seen.snapshot.verdict.verdict,
    ),
    Series(
        "verdict_info", "", "1, with what the verdict on the window says as labels.",
        _verdict_info, ("verdict", "operation", "owner", "cause", "window"),
    ),
    _one(
        "cost_ratio", "1", "Share of the window that is lost to what the verdict names.",
        lambda seen: seen.snapshot.verdict.cost_share,
    ),
    _one(
        "lost_in_turn_ratio", "1", "Share of the window that is lost to ranks that are late in turn.",
        lambda seen: seen.snapshot.verdict.lost_in_turn,
    ),
    _one(
        "unexplained_waiting_ratio", "1", "Share of the window in which ranks waited for no known reason.",
        lambda seen: seen.snapshot.verdict.not_explained,
    ),
    _one(
        "alert", "", "1 from when something is told to be slow or to hang until that is over, else 0.",
        _stands,
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
    _of_rank("silence", "s", "Time since the rank's file was last written to.", lambda now, _: now.silent_s),
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
