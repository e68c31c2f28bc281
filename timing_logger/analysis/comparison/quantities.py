"""What the processes of a run spend the steps that count on, by operation and by layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.comparison.counted_steps import CountedSteps
from timing_logger.analysis.rows.arrays import coded_text, dense_codes, each_text, numbers
from timing_logger.analysis.rows.grouping import any_row_of, counts_known, rows_of_each, sums
from timing_logger.analysis.rows.operations import is_wait
from timing_logger.analysis.rows.summarize import seen_before
from timing_logger.analysis.rows.table_types import Floats, Frame, Ints
from timing_logger.analysis.rows.tables import taken
from timing_logger.results.run_summary import MOST_LAYERS, MOST_OPERATIONS, Quantity

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
