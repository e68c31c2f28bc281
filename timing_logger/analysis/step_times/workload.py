"""How much ranks had to do in each step: what rows state as work, and how many rows there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.arrays import each_text
from timing_logger.analysis.operations import DATA, is_copy, needs_no_other_rank
from timing_logger.analysis.table_types import Bools, Floats, Ints


class RankWorkload(NamedTuple):
    """How much one process had to do; arrays have one entry per step.

    Attributes:
        of_operation: for each operation of its own work whose rows state work, the sum of that; NaN in steps
            where a row states none. The work of a copy that states none is its bytes.
        of_step: how much there was to do in the step as a whole: what the rows of ``DATA`` state together,
            or else the most that any row states, whatever its operation; None if no row states anything.
        of_exchanges: what it sent in the first, third, ... exchange of the step (``ALLTOALL`` and its like),
            and in the others, 2 x steps, in bytes; None if there are none. An exchange sends back what the
            one before it brought, so one of the two is what the rank got to work on, as experts get tokens.
        n_rows: for each operation of its own work the number of its rows.
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
            less even; see :class:`RankWorkload`. None if neither is known.
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


_EVEN = 0.05
"""Exchanges that are no more uneven than this tell nothing of the work: any program may have them."""

NOTHING_STATED = Workload({}, None, {})


def rank_workload(
    operations: list[str], operation: Ints, work: Floats, at: Ints, n_steps: int
) -> RankWorkload:
    """Sum by step what the rows of one process state as work, and count the rows.

    Args:
        operations: names of operations.
        operation: for each row the index of its operation there.
        work: for each row how much it states, of copies also their bytes; NaN where it states nothing.
        at: for each row the position of its step.
        n_steps: the number of steps.
    """
    n_rows = {
        name: np.bincount(at[here], minlength=n_steps)
        for code, name in enumerate(operations)
        if needs_no_other_rank(name) and (here := operation == code).any()
    }
    if np.isnan(work).all():
        return RankWorkload({}, None, None, n_rows)
    sums = {
        name: np.bincount(at[here], work[here], minlength=n_steps).astype(np.float64)
        for code, name in enumerate(operations)
        if name in n_rows and not np.isnan(work[here := operation == code]).all()
    }
    states = ~np.isnan(work) & ~each_text((operation, operations), is_copy)
    most = np.full(n_steps, np.nan)
    np.fmax.at(most, at[states], work[states])
    return RankWorkload(sums, _where_known(sums.get(DATA), most) if states.any() else None, None, n_rows)


def sent_in_turn(
    exchanges: Bools, size_bytes: Floats, start_s: Floats, at: Ints, n_steps: int
) -> Floats | None:
    """Sum what one process sent in every second exchange of a step, as :class:`RankWorkload` has it.

    Args:
        exchanges: whether each row is an exchange of all ranks with all.
        size_bytes, start_s, at: for each row what it sent, when it began, and the position of its step.
        n_steps: the number of steps.
    """
    if not exchanges.any():
        return None
    size_bytes, start_s, at = size_bytes[exchanges], start_s[exchanges], at[exchanges]
    order = np.lexsort((start_s, at))
    size_bytes, at = size_bytes[order], at[order]
    turn = (np.arange(len(at)) - np.searchsorted(at, at)) % 2
    sums = np.bincount(at + n_steps * turn, size_bytes, minlength=2 * n_steps).reshape(2, n_steps)
    return np.where(sums > 0, sums, np.nan)


def _where_known(first: Floats | None, otherwise: Floats) -> Floats:
    return otherwise if first is None else np.where(first > 0, first, otherwise)


def workload_of(
    found: Sequence[RankWorkload], rows: Sequence[Ints], column: Ints, shape: tuple[int, int]
) -> Workload:
    """Put together how much the processes of a run had to do.

    Args:
        found: that of each process.
        rows: for each process the positions of its steps among those of the run.
        column: for each process the column of its rank.
        shape: the numbers of steps and ranks.
    """

    def together(values: Sequence[Floats | Ints | None]) -> Floats:
        whole = np.full(shape, np.nan)
        for of_process, at, its in zip(values, rows, column, strict=True):
            if of_process is not None:
                whole[at, its] = of_process
        return whole

    names = sorted({name for each in found for name in each.of_operation})
    counted = sorted({name for each in found for name in each.n_rows})

    def if_known(values: Sequence[Floats | None]) -> Floats | None:
        return None if all(each is None for each in values) else together(values)

    stated = if_known([each.of_step for each in found])
    sent = [if_known(turn) for turn in zip(*map(_in_turn, found), strict=True)]
    brought = [each for each in sent if _unevenness(each) > max(_EVEN, _unevenness(stated))]
    return Workload(
        {name: together([each.of_operation.get(name) for each in found]) for name in names},
        max(brought, key=_unevenness, default=stated),
        {
            name: np.nan_to_num(together(counts)).astype(np.int64)
            for name in counted
            if _differ(counts := [each.n_rows.get(name) for each in found])
        },
    )


def _in_turn(found: RankWorkload) -> tuple[Floats | None, Floats | None]:
    return (None, None) if found.of_exchanges is None else (found.of_exchanges[0], found.of_exchanges[1])


def _unevenness(work: Floats | None) -> float:
    """Return by which fraction of the mean the most of a typical step is more; 0 if that is not known."""
    known = np.zeros((0, 1)) if work is None else work[~np.isnan(work).any(axis=1)]
    return float(np.median(known.max(axis=1) / known.mean(axis=1))) - 1 if len(known) else 0.0


def _differ(counts: Sequence[Ints | None]) -> bool:
    """Tell whether the numbers of rows are not the same in all steps of all processes."""
    known = [each for each in counts if each is not None and len(each)]
    first = known[0][0] if known else 0
    return any(each is None or bool((each != first).any()) for each in counts)
