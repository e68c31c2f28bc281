"""Intervals of owners: the stretches between their starts and ends, their unions, and when rows were."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from timing_logger.analysis.rows.arrays import Frame
from timing_logger.analysis.rows.intervals import (
    Union,
    covers_issue_alone,
    durations_ms,
    has_overlaps,
    instants,
    stretches,
    union_length,
    union_lengths,
    wall_times_s,
)
from timing_logger.analysis.rows.tables import opened

Interval = tuple[int, float, float]
"""The owner, and from when to when, in seconds."""


def columns(intervals: list[Interval]) -> tuple[Any, Any, Any]:
    owner, starts, ends = zip(*intervals, strict=True) if intervals else ((), (), ())
    return np.array(owner, np.int64), np.array(starts, np.float64), np.array(ends, np.float64)


def open_stretches(intervals: list[Interval], kinds: list[int]) -> list[tuple[int, float, float, list[bool]]]:
    """The stretches in which anything is open: owner, start, end, and whether each of two kinds is open."""
    found = stretches(*columns(intervals), np.array(kinds, np.int64), 2)
    of_kinds = [[bool(value) for value in pair] for pair in zip(*found.is_open, strict=True)]
    rows = zip(found.owner.tolist(), found.start_s.tolist(), found.end_s.tolist(), of_kinds, strict=True)
    return [row for row in rows if any(row[3]) and row[2] > row[1]]


# -- stretches -----------------------------------------------------------------------------------------


def test_intervals_that_do_not_overlap_are_the_stretches() -> None:
    found = stretches(*columns([(1, 3.0, 4.0), (0, 0.0, 1.0), (0, 1.0, 2.0)]), np.array([1, 0, 1]), 2)
    assert (found.owner.tolist(), found.start_s.tolist(), found.end_s.tolist()) == (
        [0, 0, 1], [0.0, 1.0, 3.0], [1.0, 2.0, 4.0],
    )  # fmt: skip
    assert [kind.tolist() for kind in found.is_open] == [[True, False, False], [False, True, True]]


def test_where_intervals_overlap_stretches_end_wherever_one_begins_or_ends() -> None:
    assert open_stretches([(0, 0.0, 4.0), (1, 2.0, 5.0), (0, 1.0, 3.0)], [0, 0, 1]) == [
        (0, 0.0, 1.0, [True, False]), (0, 1.0, 3.0, [True, True]), (0, 3.0, 4.0, [True, False]),
        (1, 2.0, 5.0, [True, False]),
    ]  # fmt: skip


def test_a_kind_is_open_until_the_last_of_its_intervals_has_ended() -> None:
    assert open_stretches([(0, 0.0, 2.0), (0, 1.0, 4.0), (0, 6.0, 7.0)], [1, 1, 0]) == [
        (0, 0.0, 1.0, [False, True]), (0, 1.0, 2.0, [False, True]), (0, 2.0, 4.0, [False, True]),
        (0, 6.0, 7.0, [True, False]),
    ]  # fmt: skip


@pytest.mark.parametrize("wrong", [(2.0, 2.0), (3.0, 2.0), (math.nan, 2.0), (2.0, math.nan)])
def test_an_interval_that_does_not_end_after_it_starts_is_no_stretch(wrong: tuple[float, float]) -> None:
    assert open_stretches([(0, 0.0, 1.0), (0, *wrong)], [0, 1]) == [(0, 0.0, 1.0, [True, False])]


def test_the_length_of_stretches_is_that_of_the_ones_that_are_asked_for() -> None:
    found = stretches(*columns([(0, 0.0, 4.0), (0, 1.0, 3.0), (2, 5.0, 6.0)]), np.array([0, 1, 1]), 2)
    assert found.length_s(found.is_open[0], 4).tolist() == [4.0, 0.0, 0.0, 0.0]
    assert found.length_s(found.is_open[1], 4).tolist() == [2.0, 0.0, 1.0, 0.0]


# -- unions --------------------------------------------------------------------------------------------

UNITED = [(0, 1.0, 3.0), (2, 0.0, 1.5), (0, 5.0, 6.0), (0, 0.0, 2.0), (2, 1.5, 2.0), (2, math.nan, 9.0)]


def test_what_intervals_of_an_owner_cover_twice_counts_once() -> None:
    assert union_lengths(*columns(UNITED), 4).tolist() == [4.0, 0.0, 2.0, 0.0]


def test_an_interval_that_ends_before_it_starts_takes_nothing_off() -> None:
    assert union_lengths(*columns([(0, 0.0, 2.0), (0, 9.0, 5.0), (1, 4.0, 3.0)]), 2).tolist() == [2.0, 0.0]


def test_intervals_of_different_owners_do_not_overlap() -> None:
    assert union_lengths(*columns([(0, 0.0, 2.0), (1, 1.0, 3.0)]), 2).tolist() == [2.0, 2.0]
    assert not has_overlaps(*columns([(0, 0.0, 2.0), (1, 1.0, 3.0)]), 2).any()


def test_an_owner_has_overlaps_if_an_interval_begins_before_the_one_before_it_has_ended() -> None:
    intervals = [(1, 2.0, 3.0), (0, 0.0, 1.0), (1, 0.0, 2.5), (0, 1.0, 2.0), (3, 0.0, 9.0)]
    assert has_overlaps(*columns(intervals), 4).tolist() == [False, True, False, False]


def test_the_union_of_intervals_without_owners_is_as_long_in_any_order() -> None:
    assert union_length(np.array([4.0, 0.0, 1.0]), np.array([5.0, 2.0, 3.0])) == 4.0
    assert union_length(np.zeros(0), np.zeros(0)) == 0.0


@pytest.mark.parametrize(
    ("owner", "since_s", "until_s", "covered_s"),
    [
        (0, -1.0, 0.0, 0.0), (0, -1.0, 0.5, 0.5), (0, 1.0, 5.5, 2.5), (0, 2.5, 9.0, 1.5), (0, 3.0, 5.0, 0.0),
        (0, 7.0, 9.0, 0.0), (1, 0.0, 9.0, 0.0), (2, -5.0, 1.75, 1.75), (2, 1.0, 9.0, 1.0), (3, 0.0, 9.0, 0.0),
    ],
)  # fmt: skip
def test_a_span_is_covered_by_the_pieces_of_its_owner_as_far_as_they_are_in_it(
    owner: int, since_s: float, until_s: float, covered_s: float
) -> None:
    union = Union.of(*columns(UNITED), 4)
    assert union.within_s(np.array([owner]), np.array([since_s]), np.array([until_s])).tolist() == [covered_s]


def test_pieces_of_a_union_say_how_much_is_before_them() -> None:
    union = Union.of(*columns([(0, 0.0, 2.0), (1, 4.0, 5.0), (1, 7.0, 9.0)]), 2)
    assert union.begin.tolist() == [0, 1, 3]
    assert union.start_s.tolist() == [0.0, 4.0, 7.0]
    assert union.length_s.tolist() == [2.0, 1.0, 2.0]
    assert union.before_s.tolist() == [0.0, 2.0, 3.0]


# -- rows ----------------------------------------------------------------------------------------------

COUNTERS = ["start_counter", "end_counter", "elapsed_ms", "operation", "seq"]


def frame(**values: list[Any]) -> Frame:
    counters = {"start_counter": [1.0, 2.0], "end_counter": [3.0, 4.0]}
    return opened(pd.DataFrame({"rank": [0, 1], **counters, **values}), COUNTERS)


def test_instants_are_on_the_common_axis_where_there_is_one() -> None:
    axis = {"start_s": [11.0, 12.0], "end_s": [13.0, 14.0]}
    start_s, end_s, uncertainty_s = instants(frame(**axis, clock_uncertainty_s=[0.5, 0.25]))
    assert (start_s.tolist(), end_s.tolist()) == ([11.0, 12.0], [13.0, 14.0])
    assert uncertainty_s.tolist() == [0.5, 0.25]
    assert np.isnan(instants(frame(**axis))[2]).all()


@pytest.mark.parametrize("axis", [{}, {"start_s": [11.0, 12.0]}, {"end_s": [13.0, 14.0]}])
def test_without_an_axis_counters_stand_in_and_their_uncertainty_is_unknown(axis: dict[str, Any]) -> None:
    start_s, end_s, uncertainty_s = instants(frame(**axis, clock_uncertainty_s=[0.5, 0.5]))
    assert (start_s.tolist(), end_s.tolist()) == ([1.0, 2.0], [3.0, 4.0])
    assert np.isnan(uncertainty_s).all()


@pytest.mark.parametrize(
    ("operation", "seq", "covers"),
    [
        ("IALLREDUCE", None, True),
        ("IALLREDUCE", 0, False),
        ("ALLREDUCE", None, False),
        ("ALLREDUCE", 0, False),
    ],
)
def test_a_row_without_a_number_covers_only_the_call_that_issued_what_goes_on(
    operation: str, seq: int | None, covers: bool
) -> None:
    rows = frame(operation=[operation] * 2, seq=[seq] * 2, elapsed_ms=[7.0] * 2)
    assert covers_issue_alone(rows).tolist() == [covers] * 2
    assert np.isnan(durations_ms(rows)).tolist() == [covers] * 2
    assert covers or durations_ms(rows).tolist() == [7.0] * 2


def test_a_process_was_there_from_its_first_start_to_its_last_end() -> None:
    nan = math.nan
    rows = opened(
        pd.DataFrame(
            {
                "rank": 0,
                "start_counter": [2.0, 1.0, 5.0, nan, nan],
                "end_counter": [9.0, 3.0, 6.0, nan, nan],
            }
        ),
        COUNTERS,
    )
    found = wall_times_s(rows, np.array([0, 0, 1, 1, 2]))
    assert found[:2].tolist() == [8.0, 1.0]
    assert len(found) == 3
    assert np.isnan(found[2])
    assert len(wall_times_s(opened(rows.to_native().iloc[:0], COUNTERS), np.zeros(0, np.int64))) == 0
