"""Match the rows that are parts of the same collective (an instance): no clocks of two ranks are compared.

Ranks number the collectives of a group alike, so (group, seq) names one. Rows without a number are
matched by their order in the group, counted from 0 in each step: a lost row spoils only its own step.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from timing_logger.analysis.rows.analysis import EARLIER_IN_STEP
from timing_logger.analysis.rows.arrays import (
    Bools,
    Floats,
    Frame,
    Ints,
    ScalarT,
    coded_text,
    dense_codes,
    each_text,
    numbers,
    processes_of,
    renamed,
)
from timing_logger.analysis.rows.group_members import communicators, own_numbers
from timing_logger.analysis.rows.grouping import any_row_of, n_earlier_alike, order_by
from timing_logger.analysis.rows.operations import base_operation, is_collective
from timing_logger.analysis.rows.steps import Meaning, epochs_of, steps_of
from timing_logger.results import criteria


def generations(earlier: Ints, group_of_rank: Ints, starts: Floats) -> Ints:
    """Return the generation of its group that each row belongs to, from 0.

    Within the rows of one rank, a sequence number that occurs again starts the next generation.

    Args:
        earlier: for each row, how many earlier rows of its rank and group have the same number.
        group_of_rank: for each row a number for its group and rank.
        starts: when each row began, in seconds.
    """
    if not earlier.any():
        return earlier
    order = order_by(group_of_rank, starts)
    offset = group_of_rank[order] * (earlier.max() + 1)
    found = np.empty_like(earlier)
    found[order] = np.maximum.accumulate(earlier[order] + offset) - offset
    return found


def generations_by_iteration(generation: Ints, operation: Ints, rank: Ints, iteration: Floats) -> Ints:
    """Correct the generations of ranks that lost rows of an earlier generation, by iteration.

    Counting alone would take a later generation for the lost one. A rank that has a number fewer times
    than another rank gets the generation whose iteration is nearest to its own.

    Args:
        generation: as :func:`generations` returned it.
        operation: for each row the number of the pair of its group and sequence number: rows of one
            operation and rank differ only in their generation.
        rank: of each row.
        iteration: of each row; NaN where it is unknown, and such rows keep their generation.

    Returns:
        The corrected generations. Where a correction would give a rank the same operation twice in one
        generation, its generations of that operation stay as they were.
    """
    of_rank = dense_codes(operation, rank)
    n_times = np.bincount(of_rank)
    one = any_row_of(of_rank)
    fullest = _fullest(operation[one], n_times)
    told = np.flatnonzero((n_times[fullest[operation]] > 1) & ~np.isnan(iteration))
    is_full = of_rank == fullest[operation]
    reference, asked = told[is_full[told]], told[n_times[of_rank[told]] < n_times[fullest[operation[told]]]]
    if not len(asked) or not len(reference):
        return generation
    nearest = _nearest(operation, iteration, reference, asked)
    found = generation.copy()
    found[asked[nearest >= 0]] = generation[nearest[nearest >= 0]]
    return np.where(_has_one_twice(of_rank, found), generation, found)


def _fullest(operation: Ints, n_times: Ints) -> Ints:
    """Return for each operation the position of the entry whose rank has it most often.

    Both arguments have one entry per pair of operation and rank.
    """
    order = np.lexsort((-n_times, operation))
    return order[np.flatnonzero(np.diff(operation[order], prepend=-1))]


def _nearest(operation: Ints, iteration: Floats, reference: Ints, asked: Ints) -> Ints:
    """Return for each row of ``asked`` that of ``reference`` in the nearest iteration; -1 if none is near."""
    reference = reference[np.lexsort((iteration[reference], operation[reference]))]
    place = operation * (np.nanmax(iteration) - np.nanmin(iteration) + 3.0) + iteration
    at = np.searchsorted(place[reference], place[asked])
    candidates = reference[np.stack([np.maximum(at - 1, 0), np.minimum(at, len(reference) - 1)])]
    apart = abs(place[candidates] - place[asked])
    nearer = apart.argmin(axis=0)
    chosen = np.arange(len(asked))
    return np.where(apart[nearer, chosen] <= criteria.MAX_ITERATIONS_APART, candidates[nearer, chosen], -1)


def _has_one_twice(of_rank: Ints, generation: Ints) -> Bools:
    """Tell for each row whether its rank would have the row's operation twice in one generation."""
    n_alike = np.bincount(alike := dense_codes(of_rank, generation))
    twice = np.bincount(of_rank, n_alike[alike] > 1) > 0
    return twice[of_rank]


_EVEN, _UNEVEN = "ALLTOALL", "ALLTOALLV"
"""Names that one exchange may have on different ranks: a rank that sends equal pieces calls it even."""


class Instances(NamedTuple):
    """The parts of all instances, sorted by instance, then rank.

    Attributes have one entry per part unless they say otherwise.

    Attributes:
        row: position of the part in the table.
        instance: number of the part's instance, from 0.
        first: one entry per instance: the position of its first part.
        communicator: number of the part's group; the same name with another size, or in another run of
            the ranks, is another group.
        rank: rank of the part.
        operation: index of its base operation in ``operations``; all parts of an exchange that some
            rank calls ``ALLTOALLV`` have that name.
        operations: names of base operations, ascending.
        group_size: size of the group as stated; NaN if unknown.
        numbered: whether the part was matched by ``seq``.
        step: number of the communicator and step of the part, for parts that are not numbered.
    """

    row: Ints
    instance: Ints
    first: Ints
    communicator: Ints
    rank: Ints
    operation: Ints
    operations: list[str]
    group_size: Floats
    numbered: Bools
    step: Ints

    @property
    def n_parts(self) -> Ints:
        """The number of parts of each instance."""
        return np.diff(self.first, append=len(self.row))

    def for_parts(self, of_instances: npt.NDArray[ScalarT]) -> npt.NDArray[ScalarT]:
        """Repeat the value of each instance for each of its parts."""
        return np.repeat(of_instances, self.n_parts)

    def least(self, values: Floats) -> Floats:
        """Return for each instance the least value of its parts; NaN if one is."""
        return np.minimum.reduceat(values, self.first) if len(values) else values

    def most(self, values: Floats) -> Floats:
        """Return for each instance the greatest value of its parts; NaN if one is."""
        return np.maximum.reduceat(values, self.first) if len(values) else values

    def only(self, wanted: Bools) -> Instances:
        """Return the instances that are ``wanted`` (one entry per instance), under their old numbers."""
        kept = self.for_parts(wanted)
        n_parts = self.n_parts[wanted]
        of_parts = [name for name in self._fields if name not in ("first", "operations")]
        return self._replace(
            first=np.cumsum(n_parts) - n_parts, **{name: getattr(self, name)[kept] for name in of_parts}
        )

    def is_one_of(self, operations: Set[str]) -> Bools:
        """Tell for each part whether its operation is in ``operations``."""
        return np.array([name in operations for name in self.operations], np.bool_)[self.operation]


def find_instances(frame: Frame, step: Floats | None = None) -> Instances:
    """Match the collectives of a table.

    Args:
        frame: a table that ``opened`` returned.
        step: the step of each row, where that is known better than from these rows alone; NaN outside of
            any step. Default: ``steps_of(frame)``.
    """
    named = coded_text(frame, "operation")
    row, (operation, operations) = (
        np.flatnonzero(each_text(named, is_collective)),
        renamed(named, base_operation),
    )
    rank = frame["rank"].to_numpy()[row].astype(np.int64)
    group_size = numbers(frame, "group_size")[row]
    communicator = communicators(frame, row)
    numbered, key, instance = _numbered(frame, row, rank, communicator, step)
    order = np.lexsort((rank, instance))
    instance = instance[order]
    first = np.flatnonzero(np.diff(instance, prepend=-1))
    return Instances(
        row=row[order],
        instance=instance,
        first=first,
        communicator=communicator[order],
        rank=rank[order],
        operation=_exchanges_alike(operation[row][order], operations, instance, first),
        operations=operations,
        group_size=group_size[order],
        numbered=numbered[order],
        step=key[order],
    )


def _numbered(
    frame: Frame, row: Ints, rank: Ints, communicator: Ints, step_of_row: Floats | None
) -> tuple[Bools, Ints, Ints]:
    """Number the instances of the given rows.

    Returns:
        For each row whether it has a ``seq``; a number for its communicator and ``seq``, or communicator and
        step where it has none; and the number of its instance.
    """
    seq = numbers(frame, "seq")[row]
    numbered = ~np.isnan(seq)
    if step_of_row is None:
        step_of_row = np.zeros(len(frame)) if numbered.all() else steps_of(frame).number
    step = np.where(numbered, seq, step_of_row[row])
    key = dense_codes(communicator, ~numbered, step)
    starts = numbers(frame, "start_counter")[row]
    earlier = n_earlier_alike(dense_codes(key, rank), starts)
    generation = generations(np.where(numbered, earlier, 0), dense_codes(communicator, rank), starts)
    if generation.any() and epochs_of(frame).meaning == Meaning.NOTHING:
        generation = generations_by_iteration(
            generation, key, rank, np.where(numbered, numbers(frame, "iteration")[row], np.nan)
        )
    if EARLIER_IN_STEP in frame.columns:
        earlier = np.where(numbered, earlier, numbers(frame, EARLIER_IN_STEP)[row]).astype(np.int64)
    instance = dense_codes(
        communicator, ~numbered, np.where(numbered, generation, step), np.where(numbered, seq, earlier)
    )
    return numbered, key, instance


def earlier_in_step(frame: Frame, row: Ints) -> Ints:
    """Return for each row how many of the given rows of its process, group and step began before it.

    ``find_instances`` matches collectives without a number by this.

    Args:
        frame: a table that ``opened`` returned.
        row: positions of the collectives without a number.
    """
    step = (numbers(frame, name)[row] for name in ("epoch", "iteration"))
    alike = dense_codes(processes_of(frame)[row], communicators(frame, row), *step)
    return n_earlier_alike(alike, numbers(frame, "start_counter")[row])


def _exchanges_alike(operation: Ints, operations: list[str], instance: Ints, first: Ints) -> Ints:
    if not {_EVEN, _UNEVEN} <= set(operations):
        return operation
    even, uneven = operations.index(_EVEN), operations.index(_UNEVEN)
    some_uneven = np.logical_or.reduceat(operation == uneven, first)
    return np.where((operation == even) & some_uneven[instance], uneven, operation)


def transfer_times_ms(parts: Instances, elapsed_ms: Floats, counts: Bools) -> Floats:
    """Return for each part the least time in ms of a rank that ``counts`` in its instance.

    It is NaN if one of these times is unknown. The arguments are those of ``clock_free_wait_ms``.
    """
    return parts.for_parts(parts.least(np.where(counts, elapsed_ms, np.inf)))


def with_bytes(frame: Frame, parts: Instances) -> Bools:
    """Tell for each part whether its rank counts: it brings bytes to the operation, or no rank does.

    A rank of which the bytes are unknown counts.
    """
    sizes = np.nan_to_num(numbers(frame, "message_size_bytes")[parts.row], nan=1.0)
    nobody_does: Bools = parts.for_parts(parts.most(sizes) == 0)
    return (sizes > 0) | nobody_does


def is_root(frame: Frame, parts: Instances) -> Bools:
    """Tell for each part of complete instances whether it is that of the operation's root."""
    group, names = coded_text(frame, "group")
    place = np.arange(len(parts.row)) - parts.for_parts(parts.first)
    number = own_numbers((group[parts.row], names), parts.rank, place)
    found: Bools = number == numbers(frame, "peer")[parts.row]
    return found
