"""One process's rows -> what it did in each step, how long it was not communicating, whom it met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from timing_logger.analysis._frames import Floats, Frame, numbers
from timing_logger.analysis._intervals import stretches
from timing_logger.analysis._self_time import Booleans, Integers, covered_s, exclusive_ms, is_own_work
from timing_logger.analysis.operations import BACKEND, WAIT, base_operation, goes_on, synchronises_all_ranks
from timing_logger.record import OK

TEXT = ("operation", "layer_name", "group", "thread", "clock", "status")
NUMBERS = ("iteration", "elapsed_ms", "start_counter", "end_counter", "group_size", "seq")

_MAX_NUMBER = 2**40  # of a collective in its group
_MAX_IN_STEP = 1024  # collectives without a number


class Meetings(NamedTuple):
    """A process's part in collectives that synchronise ranks; one entry for each.

    Attributes:
        instances: the same number on every rank for the same collective.
        iterations: in which it was.
        durations_ms: how long this rank was in it.
        group_sizes: NaN where unknown.
    """

    instances: Integers
    iterations: Integers
    durations_ms: Floats
    group_sizes: Floats


class Gaps(NamedTuple):
    """Between a process's last communication of a step and that of the step with communication before.

    How many iterations lie between the two stands in their numbers, which are final only when those of all
    processes are known: the longest of their epochs decides how far apart two epochs are.

    Attributes:
        step, before: the two, as positions among the process's steps; ascending.
        span_s: from the one to the other.
        held_s: communication in that time.
    """

    step: Integers
    before: Integers
    span_s: Floats
    held_s: Floats


class RankSteps(NamedTuple):
    """One process by step; the arrays are as long as ``iterations``.

    Attributes:
        work_ms: for each operation of its own work the time in it, 0 in steps without; NaN if unknown.
    """

    rank: int
    iterations: Integers
    work_ms: dict[str, Floats]
    gaps: Gaps
    meetings: Meetings

    @property
    def gap_ms(self) -> Floats:
        """Time from the last communication of the step before to the last of this one, less what it took.

        Per iteration, also where only some iterations are recorded. NaN for the first step, and where an
        instant is unknown.
        """
        found = np.full(len(self.iterations), np.nan)
        step, before, span_s, held_s = self.gaps
        span_s = span_s / (self.iterations[step] - self.iterations[before])
        found[step] = 1000 * np.maximum(span_s - held_s, 0.0)
        return found

    def without_steps(self) -> RankSteps:
        """Of the same process, as if it had recorded no step."""
        no_integers, no_floats = self.iterations[:0], self.gaps.span_s[:0]
        nobody = Meetings(no_integers, no_integers, no_floats, no_floats)
        none = Gaps(no_integers, no_integers, no_floats, no_floats)
        return RankSteps(self.rank, no_integers, {}, none, nobody)


class _Rows(NamedTuple):
    """Columns of one process: texts as positions in ``names``, times NaN where unknown or failed."""

    names: Mapping[str, list[str]]
    text: Mapping[str, Integers]
    number: Mapping[str, Floats]
    steps: Integers
    iterations: Integers

    def whose(self, column: str, wanted: Sequence[bool]) -> Booleans:
        """The rows whose text in ``column`` is wanted; ``wanted`` goes with the names of the column."""
        chosen: Booleans = np.asarray(wanted, dtype=bool)[self.text[column]]
        return chosen

    def operations(self, predicate: Any) -> Booleans:
        return self.whose("operation", [predicate(name) for name in self.names["operation"]])


def rank_steps(rows: Frame, rank: int, names: Mapping[str, list[str]], *, has_iterations: bool) -> RankSteps:
    """What one process did.

    Args:
        rows: its rows, in the order of recording.
        names: the distinct texts of each column of ``TEXT``, over all processes.
        has_iterations: else the n-th rows of each operation and layer are taken to be of step n.
    """
    part = _columns(rows, names, has_iterations)
    own, going_on = part.operations(is_own_work), _going_on(part)
    alone_ms = _alone_ms(part, ~going_on)
    work_ms = {
        name: _sums(part.steps[here], alone_ms[here], len(part.iterations))
        for code, name in enumerate(names["operation"])
        if is_own_work(name) and (here := part.text["operation"] == code).any()
    }
    return RankSteps(rank, part.iterations, work_ms, _gaps(part, own, ~own & ~going_on), _meetings(part))


def _sums(positions: Integers, values: Floats, length: int) -> Floats:
    return np.bincount(positions, values, minlength=length).astype(np.float64)


def _columns(rows: Frame, names: Mapping[str, list[str]], has_iterations: bool) -> _Rows:
    text = {name: _positions(rows[name], names[name]) for name in TEXT}
    number = {name: numbers(rows, name) for name in NUMBERS}
    if not has_iterations:
        number["iteration"] = _ordinals(text["operation"] * len(names["layer_name"]) + text["layer_name"])
    inside = ~np.isnan(number["iteration"])
    if not inside.all():
        text = {name: column[inside] for name, column in text.items()}
        number = {name: column[inside] for name, column in number.items()}
    iterations, steps = np.unique(number.pop("iteration").astype(np.int64), return_inverse=True)
    failed = np.array([name not in (OK, "") for name in names["status"]], dtype=bool)[text["status"]]
    number["elapsed_ms"] = np.where(failed, np.nan, number["elapsed_ms"])
    return _Rows(names, text, number, steps, iterations)


def _positions(texts: nw.Series[Any], names: list[str]) -> Integers:
    if len(names) == 1:
        return np.zeros(len(texts), np.int64)
    return texts.replace_strict(names, range(len(names)), return_dtype=nw.Int64).to_numpy().astype(np.int64)


def _ordinals(kinds: Integers) -> Floats:
    """How many rows of the same kind came before each."""
    order = np.argsort(kinds, kind="stable")
    _, firsts, counts = np.unique(kinds[order], return_index=True, return_counts=True)
    ordinals = np.empty(len(kinds))
    ordinals[order] = np.arange(len(kinds)) - np.repeat(firsts, counts)
    return ordinals


def _collective_numbers(rows: _Rows) -> Floats:
    """One number for each group and seq; NaN without a seq."""
    numbered: Floats = rows.text["group"] * float(_MAX_NUMBER) + rows.number["seq"]
    return numbered


def _going_on(rows: _Rows) -> Booleans:
    """What held nobody up: operations whose waits have rows of their own, a backend's account of them."""
    collectives = _collective_numbers(rows)
    waits = rows.operations(lambda name: base_operation(name) == WAIT)
    work = rows.operations(is_own_work)
    waited_for = np.isin(collectives, collectives[waits & ~np.isnan(collectives)])
    accounts = rows.operations(lambda name: base_operation(name) == BACKEND)
    started: Booleans = rows.operations(goes_on) | accounts | (waited_for & ~waits)
    return started & ~work


def _alone_ms(rows: _Rows, held: Booleans) -> Floats:
    lanes, number = _lanes(rows), rows.number
    alone = np.full(len(held), np.nan)
    alone[held] = exclusive_ms(
        number["elapsed_ms"][held], number["start_counter"][held], number["end_counter"][held], lanes[held]
    )
    return alone


def _lanes(rows: _Rows) -> Integers:
    """Rows of one thread and clock have the same."""
    lanes: Integers = rows.text["thread"] * len(rows.names["clock"]) + rows.text["clock"]
    return lanes


def _gaps(rows: _Rows, own: Booleans, blocking: Booleans) -> Gaps:
    placed = ~np.isnan(rows.number["start_counter"]) & ~np.isnan(rows.number["end_counter"])
    last_ends = np.full(len(rows.iterations), -np.inf)
    np.maximum.at(last_ends, rows.steps[placed & blocking], rows.number["end_counter"][placed & blocking])
    at = np.flatnonzero(np.isfinite(last_ends))
    since, until = last_ends[at[:-1]], last_ends[at[1:]]
    # Communication beside own work holds nobody up, so only what it adds to the work is taken off. A
    # thread that is blocked does not work, whatever row of work it has around the call.
    working = _work_intervals(rows, placed, own, blocking)
    blocked = (rows.number["start_counter"][placed & blocking], rows.number["end_counter"][placed & blocking])
    starts, ends = (np.concatenate(pair) for pair in zip(working, blocked, strict=True))
    held_s = _covered_s(starts, ends, since, until) - _covered_s(*working, since, until)
    return Gaps(at[1:], at[:-1], until - since, held_s)


def _work_intervals(
    rows: _Rows, placed: Booleans, own: Booleans, blocking: Booleans
) -> tuple[Floats, Floats]:
    """Starts and ends of each thread's own work in which it was not blocked."""
    chosen = placed & (own | blocking)
    starts, ends = rows.number["start_counter"][chosen], rows.number["end_counter"][chosen]
    pieces = stretches(_lanes(rows)[chosen], starts, ends, blocking[chosen].astype(np.int64), 2)
    works = pieces.is_open[0] & ~pieces.is_open[1]
    return pieces.start_s[works], pieces.end_s[works]


def _covered_s(starts: Floats, ends: Floats, since: Floats, until: Floats) -> Floats:
    order = np.argsort(starts, kind="stable")
    return covered_s(since, until, starts[order], ends[order])


def _meetings(rows: _Rows) -> Meetings:
    met = rows.operations(synchronises_all_ranks) & ~np.isnan(rows.number["elapsed_ms"])
    collectives = _collective_numbers(rows)
    numbered = met & ~np.isnan(collectives)
    named = Meetings(
        collectives[numbered].astype(np.int64),
        rows.iterations[rows.steps[numbered]],
        rows.number["elapsed_ms"][numbered],
        rows.number["group_size"][numbered],
    )
    nameless = _by_step(rows, met & np.isnan(collectives))
    return Meetings(*(np.concatenate(pair) for pair in zip(named, nameless, strict=True)))


def _by_step(rows: _Rows, met: Booleans) -> Meetings:
    """Collectives without a number: those of one group in one step count as one, if as many on each rank."""
    sizes = np.nan_to_num(rows.number["group_size"][met], nan=-1.0)
    keys = np.stack([rows.text["group"][met], rows.iterations[rows.steps[met]], sizes.astype(np.int64)])
    (group, iteration, size), at, counts = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    durations = _sums(at.ravel(), rows.number["elapsed_ms"][met], len(counts))
    kinds = iteration * len(rows.names["group"]) + group
    instances = -1 - (kinds * _MAX_IN_STEP + np.minimum(counts, _MAX_IN_STEP - 1))
    return Meetings(instances, iteration, durations, np.where(size < 0, np.nan, size.astype(np.float64)))


def renamed(steps: RankSteps, number: Integers, place: Integers, n_groups: int) -> RankSteps:
    """The same, with steps and collectives numbered as among the steps and groups of more processes.

    Args:
        steps: of a process whose names of groups were ``len(place)``.
        number: the new number of each step.
        place: for each of these names, where it stands among the ``n_groups`` names of all.
    """
    met = steps.meetings
    group, seq = np.divmod(met.instances, _MAX_NUMBER)
    kinds, counts = np.divmod(-1 - met.instances, _MAX_IN_STEP)
    named = met.instances >= 0
    group = place[np.where(named, group, kinds % len(place))]
    iterations = number[np.searchsorted(steps.iterations, met.iterations)]
    nameless = -1 - ((iterations * n_groups + group) * _MAX_IN_STEP + counts)
    instances = np.where(named, group * _MAX_NUMBER + seq, nameless)
    return steps._replace(
        iterations=number, meetings=met._replace(instances=instances, iterations=iterations)
    )
