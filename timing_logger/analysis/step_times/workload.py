"""How much ranks had to do in each step: what rows state as work, and how many rows there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import Bools, Floats, Ints
from timing_logger.analysis.rows.operations import DATA, is_copy, needs_no_other_rank
from timing_logger.analysis.step_times.work_rows import WorkRows, joined_columns
from timing_logger.results import criteria


class StepsWorkload(NamedTuple):
    """How much processes had to do; arrays have one entry per step of each process.

    Attributes:
        of_operation: for each operation of their own work whose rows state work, the sum of that; NaN in
            steps where a row states none, and of a process that never does. The work of a copy that states
            none is its bytes.
        of_step: how much there was to do in the step as a whole: what the rows of ``DATA`` state together,
            or else the most that any row states, whatever its operation; NaN where none does. None if no row
            states anything.
        of_exchanges: what a process sent in the first, third, ... exchange of the step (``ALLTOALL`` and its
            like), and in the others, 2 x steps, in bytes; None if there are none. An exchange sends back what
            the one before it brought, so one of the two is what the rank got to work on, as experts get
            tokens.
        n_rows: for each operation of own work the number of its rows.
    """

    of_operation: dict[str, Floats]
    of_step: Floats | None
    of_exchanges: Floats | None
    n_rows: dict[str, Ints]


class Workload(NamedTuple):
    """How much all ranks of a run had to do; arrays are steps x ranks.

    Attributes:
        of_operation: for each operation of own work whose rows state work, how much; NaN where unknown.
        of_step: how much in the step as a whole: what rows state, or what exchanges brought, whichever is
            less even; see :class:`StepsWorkload`. None if neither is known.
        n_rows: the number of rows of each operation of which ranks or steps have different numbers.
    """

    of_operation: Mapping[str, Floats]
    of_step: Floats | None
    n_rows: Mapping[str, Ints]

    @property
    def is_known(self) -> bool:
        """Whether rows tell how much there was to do in anything."""
        return self.of_step is not None or bool(self.of_operation)

    def of(self, operation: str) -> Floats | None:
        """Return how much there was to do in an operation, steps x ranks: that of the step if it is not told.

        None if nothing is known.
        """
        return self.of_operation.get(operation, self.of_step)


NOTHING_STATED = Workload({}, None, {})


def workload(rows: WorkRows, process: Ints) -> StepsWorkload:
    """Sum by step what rows state as work, and count them; ``of_exchanges`` is left out.

    Args:
        rows: the rows.
        process: for each step the number of its process.
    """
    n_steps, work = len(process), rows.work
    of_name = {
        name: here
        for code, name in enumerate(rows.operations)
        if needs_no_other_rank(name) and (here := rows.operation == code).any()
    }
    n_rows = {name: np.bincount(rows.entry[here], minlength=n_steps) for name, here in of_name.items()}
    is_stated = ~np.isnan(work)
    if not is_stated.any():
        return StepsWorkload({}, None, None, n_rows)
    sums = {
        name: _where_stated(rows.only(here), process)
        for name, here in of_name.items()
        if is_stated[here].any()
    }
    states = is_stated & ~rows.operations_are(is_copy)
    most = np.full(n_steps, np.nan)
    np.fmax.at(most, rows.entry[states], work[states])
    of_data = sums.get(DATA, np.zeros(n_steps))
    of_step = np.where(of_data > 0, of_data, most) if states.any() else None
    return StepsWorkload(sums, of_step, None, n_rows)


def _where_stated(rows: WorkRows, process: Ints) -> Floats:
    """Sum the work of rows by step; NaN in all steps of a process in which none of them states any."""
    states = np.bincount(rows.process[~np.isnan(rows.work)], minlength=int(process.max(initial=-1)) + 1) > 0
    return np.where(states[process], np.bincount(rows.entry, rows.work, minlength=len(process)), np.nan)


def sent_in_turn(
    exchanges: Bools, size_bytes: Floats, start_s: Floats, at: Ints, n_steps: int
) -> Floats | None:
    """Sum what processes sent in every second exchange of a step, as :class:`StepsWorkload` has it.

    Args:
        exchanges: whether each row is an exchange of all ranks with all.
        size_bytes, start_s, at: for each row what it sent, when it began, and the number of its step.
        n_steps: the number of steps of all processes.
    """
    if not exchanges.any():
        return None
    size_bytes, start_s, at = size_bytes[exchanges], start_s[exchanges], at[exchanges]
    order = np.lexsort((start_s, at))
    size_bytes, at = size_bytes[order], at[order]
    turn = (np.arange(len(at)) - np.searchsorted(at, at)) % 2
    sums = np.bincount(at + n_steps * turn, size_bytes, minlength=2 * n_steps).reshape(2, n_steps)
    return np.where(sums > 0, sums, np.nan)


def joined_workload(parts: Sequence[StepsWorkload], lengths: Sequence[int]) -> StepsWorkload:
    """Put how much processes had to do one after the other, by the number of steps of each part."""
    return StepsWorkload(
        joined_columns([part.of_operation for part in parts], lengths, np.nan),
        _joined([part.of_step for part in parts], lengths),
        _joined([part.of_exchanges for part in parts], lengths),
        joined_columns([part.n_rows for part in parts], lengths, 0),
    )


def _joined(columns: Sequence[Floats | None], lengths: Sequence[int]) -> Floats | None:
    shape = next((column.shape[:-1] for column in columns if column is not None), None)
    if shape is None:
        return None
    known = (
        np.full((*shape, n), np.nan) if of is None else of for of, n in zip(columns, lengths, strict=True)
    )
    return np.concatenate(list(known), axis=-1)


def workload_of(found: StepsWorkload, by_step_and_rank: Callable[[Floats], Floats]) -> Workload:
    """Put together how much the ranks of a run had to do.

    Args:
        found: that of all processes.
        by_step_and_rank: puts the entries of the steps of processes into an array of steps x ranks.
    """
    sent = [] if found.of_exchanges is None else [by_step_and_rank(turn) for turn in found.of_exchanges]
    stated = None if found.of_step is None else by_step_and_rank(found.of_step)
    brought = [
        each for each in sent if _unevenness(each) > max(criteria.UNEVEN_WORK_SHARE, _unevenness(stated))
    ]
    return Workload(
        {name: by_step_and_rank(found.of_operation[name]) for name in sorted(found.of_operation)},
        max(brought, key=_unevenness, default=stated),
        {
            name: np.nan_to_num(by_step_and_rank(counts.astype(np.float64))).astype(np.int64)
            for name, counts in sorted(found.n_rows.items())
            if (counts != counts[0]).any()
        },
    )


def _unevenness(work: Floats | None) -> float:
    """Return by which fraction of the mean the most of a typical step is more; 0 if that is not known."""
    known = np.zeros((0, 1)) if work is None else work[~np.isnan(work).any(axis=1)]
    return float(np.median(known.max(axis=1) / known.mean(axis=1))) - 1 if len(known) else 0.0
