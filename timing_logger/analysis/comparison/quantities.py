"""What the processes of a run spend the steps that count on, by operation and by layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import (
    Bools,
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    known,
    numbers,
    processes_of,
)
from timing_logger.analysis.rows.grouping import any_row_of, counts_known, least_of_each, rows_of_each, sums
from timing_logger.analysis.rows.intervals import wall_times_s
from timing_logger.analysis.rows.operations import is_wait
from timing_logger.analysis.rows.rounds import rounds_of
from timing_logger.analysis.rows.steps import epochs_of, iterations_since, numbered
from timing_logger.analysis.rows.summarize import seen_before
from timing_logger.analysis.rows.tables import taken
from timing_logger.results import criteria
from timing_logger.results.run_summary import MOST_LAYERS, MOST_OPERATIONS, Quantity, StepKind


class StepLength(NamedTuple):
    """How long the steps of a process were that count.

    Attributes:
        n_steps: how many they are.
        n_warm_up: how many before them were left out.
        mean_ms, median_ms: how long they took, each until the next one began; NaN if unknown.
    """

    n_steps: int
    n_warm_up: int
    mean_ms: float
    median_ms: float


class TakenSteps(NamedTuple):
    """How long each of the steps took that count, of all processes.

    Attributes:
        process: the number of its process.
        number: its iteration, or its round.
        place: its position among all steps of its process, from 0 on.
        ms: how long it took, until the next one began; NaN if unknown.
    """

    process: Ints
    number: Ints
    place: Ints
    ms: Floats

    @property
    def restarts(self) -> Bools:
        """Of each step, whether the numbers of its process ever stay or fall from one step to the next."""
        falls = np.zeros(int(self.process.max(initial=-1)) + 1, np.bool_)
        falls[self.process[1:][(np.diff(self.number) <= 0) & (np.diff(self.process) == 0)]] = True
        return falls[self.process]


class CountedSteps(NamedTuple):
    """The rows of some processes that count, and in which of their steps.

    Attributes:
        rows: positions of the rows that are of a step that counts.
        process: of each of these rows, the number of its process.
        step: of each of these rows, the position of its step among those of its process that count.
        lengths: of each process.
        taken: each step by itself; None where all rows are one step.
        kind: what a step is.
    """

    rows: Ints
    process: Ints
    step: Ints
    lengths: list[StepLength]
    taken: TakenSteps | None
    kind: StepKind


def counted_steps(frame: Frame) -> CountedSteps:
    """Return the rows of the steps that count, of a table that ``opened`` returned.

    A step is what was recorded as an iteration, in its epoch where iterations restart; where no process
    records any, a round of the collectives that repeat; where nothing repeats, all rows are one step.
    """
    process = processes_of(frame)
    epochs = epochs_of(frame)
    iteration = numbers(frame, "iteration")
    number = numbered(epochs, iteration).number
    if not np.isnan(number).all():
        return _counted(frame, process, number, iteration)
    number = rounds_of(frame, process)
    if not np.isnan(number).all():
        return _counted(frame, process, number, number)._replace(kind="rounds")
    return _whole_run(frame, process)


def _counted(frame: Frame, process: Ints, number: Floats, iteration: Floats) -> CountedSteps:
    inside = np.flatnonzero(~np.isnan(number))
    entry = dense_codes(process[inside], number[inside])
    one = inside[any_row_of(entry)]
    n_steps = np.bincount(process[one], minlength=int(process.max(initial=-1)) + 1)
    place = np.arange(len(one)) - (np.cumsum(n_steps) - n_steps)[process[one]]  # among those of its process
    n_warm_up = np.minimum(criteria.MAX_WARM_UP_STEPS, (criteria.WARM_UP_SHARE * n_steps).astype(np.int64))
    taken_ms = _taken_ms(frame, inside, entry, process[one], iteration[one])
    counts = place >= n_warm_up[process[one]]
    lengths = [
        _length(taken_ms[counts & (process[one] == at)], int(n - left), int(left))
        for at, (n, left) in enumerate(zip(n_steps.tolist(), n_warm_up.tolist(), strict=True))
    ]
    taken = TakenSteps(
        process[one][counts], iteration[one][counts].astype(np.int64), place[counts], taken_ms[counts]
    )
    kept = counts[entry]
    step = (place - n_warm_up[process[one]])[entry][kept]
    return CountedSteps(inside[kept], process[inside[kept]], step, lengths, taken, "iterations")


def _taken_ms(frame: Frame, inside: Ints, entry: Ints, process: Ints, iteration: Floats) -> Floats:
    """Return for each step the time until the next one began, per iteration; NaN for the last ones."""
    begins_s = least_of_each(numbers(frame, "start_counter")[inside], entry, len(process))
    found = np.full(len(process), np.nan)
    found[:-1] = 1e3 * np.diff(begins_s) / iterations_since(iteration, process)[1:]
    return found


def _length(taken_ms: Floats, n_steps: int, n_warm_up: int) -> StepLength:
    taken_ms = known(taken_ms)
    if not len(taken_ms):
        return StepLength(n_steps, n_warm_up, np.nan, np.nan)
    return StepLength(n_steps, n_warm_up, float(taken_ms.mean()), float(np.median(taken_ms)))


def _whole_run(frame: Frame, process: Ints) -> CountedSteps:
    wall_ms = (1e3 * wall_times_s(frame, process)).tolist()
    lengths = [StepLength(1, 0, one, one) for one in wall_ms]
    rows = np.arange(len(process))
    return CountedSteps(rows, process, np.zeros(len(process), np.int64), lengths, None, "run")


_KEPT_OF_PROCESS = 5
"""Of each process, so many times what is kept of the run: what takes long on all is among it."""

_BY = {"operation": ("operation", "phase", "group"), "layer": ("operation", "layer_name")}
"""The columns that tell quantities of each kind apart."""

Key = tuple[str, str, str, str, str]
"""Kind, operation, phase, group and layer."""


class SpentOn(NamedTuple):
    """What a process spent on one thing.

    Attributes:
        ms, n_rows, bytes: of its rows, the time without what was counted with another row.
        n_sizes: how many rows state a size.
        median_ms: the median of its steps.
    """

    ms: float
    n_rows: float
    bytes: float
    n_sizes: float
    median_ms: float


class SpentByProcess(NamedTuple):
    """What a process spent.

    Attributes:
        spent: by what it spent it on.
        n_more: how many more things there are, which take less.
    """

    spent: dict[Key, SpentOn]
    n_more: int


def spent_in(frame: Frame, steps: CountedSteps) -> list[SpentByProcess]:
    """Sum what each of some processes spent in the steps that count, of a table that ``opened`` returned."""
    frame = taken(frame, ["operation", "phase", "group", "layer_name", *_COLUMNS], steps.rows)
    found: dict[int, SpentByProcess] = {at: SpentByProcess({}, 0) for at in range(len(steps.lengths))}
    for kind, columns in _BY.items():
        of_kind = _spent(frame, steps, kind, {name: coded_text(frame, name) for name in columns})
        for process, spent in of_kind.items():
            kept, n_more = _longest(spent, _KEPT_OF_PROCESS * _MOST[kind])
            before = found[process]
            found[process] = SpentByProcess(before.spent | kept, before.n_more + n_more)
    return list(found.values())


_COLUMNS = (
    "rank", "incarnation", "thread", "elapsed_ms", "message_size_bytes", "start_counter", "end_counter",
)  # fmt: skip
_MOST = {"operation": MOST_OPERATIONS, "layer": MOST_LAYERS}


def _spent(
    frame: Frame, steps: CountedSteps, kind: str, texts: Mapping[str, tuple[Ints, list[str]]]
) -> dict[int, dict[Key, SpentOn]]:
    """Return what each process spent on things of a kind."""
    key = dense_codes(steps.process, *(codes for codes, _ in texts.values()))
    one, n_keys = any_row_of(key), int(key.max(initial=-1)) + 1
    ms, sizes = _counted_ms(frame, key, texts["operation"]), numbers(frame, "message_size_bytes")
    columns = (
        sums(ms, key, n_keys), np.bincount(key, minlength=n_keys).astype(np.float64),
        sums(sizes, key, n_keys), counts_known(sizes, key, n_keys).astype(np.float64),
        _medians_ms(ms, key, steps, n_keys),
    )  # fmt: skip
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    found: dict[int, dict[Key, SpentOn]] = {}
    for at, row in enumerate(one.tolist()):
        of = _key(kind, {name: values[codes[row]] for name, (codes, values) in texts.items()})
        if kind != "layer" or of[-1]:
            found.setdefault(int(steps.process[row]), {})[of] = SpentOn._make(rows[at])
    return found


def _key(kind: str, text: dict[str, str]) -> Key:
    return kind, text["operation"], text.get("phase", ""), text.get("group", ""), text.get("layer_name", "")


def _counted_ms(frame: Frame, key: Ints, operation: tuple[Ints, list[str]]) -> Floats:
    """Return the time of each row; 0 where it is unknown, or was counted with another ``WAIT`` row."""
    ms = np.nan_to_num(numbers(frame, "elapsed_ms"), nan=0.0, posinf=0.0)
    ms[seen_before(frame, key, each_text(operation, is_wait))] = 0.0
    return np.maximum(ms, 0.0)


def _medians_ms(ms: Floats, key: Ints, steps: CountedSteps, n_keys: int) -> Floats:
    """Return for each key, which is of one process, the median over steps of what it took in a step."""
    cell = dense_codes(key, steps.step)
    one = any_row_of(cell)
    in_step_ms = sums(ms, cell, len(one))
    found = np.zeros(n_keys)
    for rows in rows_of_each(key[one]):
        row = one[rows][0]
        n_steps = steps.lengths[int(steps.process[row])].n_steps
        found[key[row]] = _median_with_zeros(in_step_ms[rows], n_steps)
    return found


def _median_with_zeros(values: Floats, n: int) -> float:
    """Return the median of ``n`` values of which those that are not stated are 0."""
    if 2 * len(values) < n:
        return 0.0
    ordered = np.sort(values)
    places = np.array([(n - 1) // 2, n // 2]) - (n - len(values))
    return float(np.where(places < 0, 0.0, ordered[np.maximum(places, 0)]).mean())


def _longest(spent: dict[Key, SpentOn], most: int) -> tuple[dict[Key, SpentOn], int]:
    """Return what took longest, or most bytes, and how many others there are."""
    in_order = sorted(spent.items(), key=lambda one: (-one[1].ms, -one[1].bytes, one[0]))
    return dict(in_order[:most]), max(0, len(in_order) - most)


def joined_quantities(processes: Sequence[SpentByProcess], n_steps: int) -> tuple[list[Quantity], int]:
    """Return what an average rank spent in an average step, the longest first, and how much is left out.

    Args:
        processes: those that have steps that count.
        n_steps: how many of these all of them have together.
    """
    by_key: dict[Key, list[SpentOn]] = {}
    for key, one in (item for process in processes for item in process.spent.items()):
        by_key.setdefault(key, []).append(one)
    # Exact sums, which are the same in any order of processes.
    together = {key: SpentOn._make(map(math.fsum, zip(*every, strict=True))) for key, every in by_key.items()}
    found: list[Quantity] = []
    n_more = max((process.n_more for process in processes), default=0)
    for kind, most in _MOST.items():
        kept, more = _longest({key: one for key, one in together.items() if key[0] == kind}, most)
        found += [_quantity(key, one, n_steps, len(processes)) for key, one in kept.items()]
        n_more += more
    return found, n_more


def _quantity(key: Key, one: SpentOn, n_steps: int, n_processes: int) -> Quantity:
    return Quantity(
        *key, None, one.ms / n_steps, one.median_ms / n_processes, one.n_rows / n_steps,
        one.bytes / n_steps if one.n_sizes else None,
    )  # fmt: skip
