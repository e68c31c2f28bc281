"""The rows of a trace: their processes, their place on the axis, their lanes, and the bytes under way."""

from __future__ import annotations

from math import isnan, nan
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timing_logger.analysis.rows.files import File
from timing_logger.analysis.rows.tables import opened
from timing_logger.report._trace_rows import (
    Traced,
    TraceProcess,
    TraceRows,
    assign_lanes,
    bytes_in_flight,
    numbers_of_lanes,
    origin_of,
    process_names,
    traced_in,
)


def table(*rows: dict[str, Any]) -> Any:
    """Return a table of rows; each is one of an own operation of rank 0, unless it says otherwise."""
    usual = {
        "rank": 0, "incarnation": 1, "operation": "load", "start_counter": nan, "end_counter": nan,
        "message_size_bytes": nan, "thread": "main", "clock": "host",
    }  # fmt: skip
    return opened(pd.DataFrame([{**usual, **row} for row in rows]), as_laid_out=True)


def placed(*rows: dict[str, Any], origin_s: float = 10.0) -> TraceRows:
    frame = table(*rows)
    return TraceRows.of(frame, frame, origin_s)


def span(start_s: float, end_s: float = nan, **fields: Any) -> dict[str, Any]:
    return {"start_s": start_s, "end_s": end_s, **fields}


# -- processes -------------------------------------------------------------------------------------------


def test_processes_are_listed_by_rank_and_run_with_their_first_instant() -> None:
    frame = table(span(5.0, 6.0, rank=1), span(4.0, 6.0, rank=1), span(9.0, rank=0, incarnation=2), span(nan))
    found = traced_in(frame)
    assert [(one.process, one.n_rows) for one in found] == [((0, 1), 1), ((0, 2), 1), ((1, 1), 2)]
    assert [one.first_s for one in found[1:]] == [9.0, 4.0]
    assert isnan(found[0].first_s)


@pytest.mark.parametrize(("uncertainty_s", "is_aligned"), [((0.1, nan), True), ((nan, 0.1), False)])
def test_a_clock_is_aligned_if_each_row_that_began_says_how_well(
    uncertainty_s: tuple[float, float], is_aligned: bool
) -> None:
    first, second = uncertainty_s
    frame = table(span(5.0, clock_uncertainty_s=first), span(nan, clock_uncertainty_s=second))
    assert traced_in(frame)[0].is_aligned is is_aligned


def test_the_axis_begins_with_the_first_instant_that_is_known() -> None:
    process = TraceProcess(0, 1)
    assert origin_of([Traced(process, 1, first_s, True) for first_s in (nan, 7.0, 3.0)]) == 3.0
    assert isnan(origin_of([Traced(process, 1, nan, True)]))


def test_a_process_is_named_by_what_tells_it_from_others() -> None:
    traced = [Traced(TraceProcess(*one), 1, 0.0, True) for one in ((0, 1), (1, 2), (2, 1))]
    traced[2] = traced[2]._replace(is_aligned=False)
    files = cast("list[File]", [
        {"rank": 0, "incarnation": 1, "sidecar": {"host": "a", "labels": {"job": 7, "kind": "x"}}},
        {"rank": 1, "incarnation": 2, "sidecar": {"host": "b"}},
    ])  # fmt: skip
    assert process_names(traced, files) == [
        "rank 0 (a, job=7, kind=x)", "rank 1 (run 2, b)", "rank 2 (clock not aligned)"
    ]  # fmt: skip
    assert process_names(traced[:1], files[:1]) == ["rank 0 (job=7, kind=x)"]
    assert process_names(traced[2:], []) == ["rank 2"]  # there is no other clock


# -- the axis --------------------------------------------------------------------------------------------


def test_rows_are_placed_in_nanoseconds_since_the_origin() -> None:
    rows = placed(span(10.0, 10.5), span(11.0), span(nan, 12.0), span(12.0, 11.0))
    assert rows.placed.tolist() == [True, True, False, True]
    assert rows.ended.tolist() == [True, False, False, True]
    assert rows.start_ns.tolist() == [0, 10**9, 0, 2 * 10**9]
    # an end that is not known, or before its start, is the start
    assert rows.end_ns.tolist()[:2] == [5 * 10**8, 10**9]
    assert rows.end_ns.tolist()[3] == 2 * 10**9


# -- bytes under way -------------------------------------------------------------------------------------


def message(start_s: float, end_s: float, n_bytes: float, **fields: Any) -> dict[str, Any]:
    return span(start_s, end_s, operation="ALLREDUCE", message_size_bytes=n_bytes, **fields)


def test_bytes_are_under_way_from_the_start_to_the_end_of_communication() -> None:
    found = bytes_in_flight(placed(
        message(10.0, 12.0, 100), message(11.0, 13.0, 20), message(10.5, nan, 7), message(10.5, 11.5, 0),
        span(10.0, 11.0, message_size_bytes=1000),
    ))  # fmt: skip
    assert [at / 1e9 for at in found.at_ns.tolist()] == [0.0, 1.0, 2.0, 3.0]
    assert found.n_bytes.tolist() == [100, 120, 20, 0]


def test_at_an_instant_at_which_one_ends_and_another_begins_only_the_change_counts() -> None:
    found = bytes_in_flight(placed(message(10.0, 11.0, 5), message(11.0, 12.0, 5), message(11.0, 12.0, 1)))
    assert found.n_bytes.tolist() == [5, 6, 0]
    found = bytes_in_flight(placed(message(10.0, 11.0, 5), message(11.0, 12.0, 5)))
    assert [at / 1e9 for at in found.at_ns.tolist()] == [0.0, 2.0]


# -- lanes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spans", "numbers"),
    [
        ([], []),
        ([(0, 5), (5, 9)], [0, 0]),
        ([(0, 9), (1, 5), (5, 9)], [0, 0, 0]),
        ([(0, 5), (4, 9)], [0, 1]),
        ([(0, 5), (4, 9), (5, 7)], [0, 1, 0]),
        ([(0, 5), (4, 9), (5, 12), (6, 13)], [0, 1, 0, 2]),
        ([(0, 9), (1, 4), (2, 5), (4, 9)], [0, 0, 1, 0]),
    ],
)
def test_a_span_is_in_the_first_lane_in_which_it_lies_in_another_or_beside_all(
    spans: list[tuple[int, int]], numbers: list[int]
) -> None:
    starts, ends = (np.array([one[at] for one in spans], np.int64) for at in (0, 1))
    assert numbers_of_lanes(starts, ends).tolist() == numbers


def test_threads_background_and_devices_have_lanes_of_their_own() -> None:
    lanes = assign_lanes(placed(
        span(10.0, 11.0, thread="main"), span(10.0, 11.0, thread=""), span(10.0, 11.0, clock="device"),
        span(10.5, 11.5, thread="main"), span(10.0, 12.0, operation="IALLREDUCE"),
    ))  # fmt: skip
    named = [lanes.names[lane] for lane in lanes.of_row.tolist()]
    assert named == ["main", "thread", "device (main)", "main #2", "background (main)"]
    assert lanes.names == sorted(lanes.names)


def test_of_spans_that_begin_together_the_longer_comes_first() -> None:
    assert set(assign_lanes(placed(span(10.0, 11.0), span(10.0, 12.0))).of_row.tolist()) == {0}


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 10)), max_size=12))
def test_spans_of_one_lane_never_overlap_in_part(drawn: list[tuple[int, int]]) -> None:
    spans = sorted(((start, start + length) for start, length in drawn), key=lambda one: (one[0], -one[1]))
    starts, ends = (np.array([one[at] for one in spans], np.int64) for at in (0, 1))
    numbers = numbers_of_lanes(starts, ends).tolist()
    for at, (start, end) in enumerate(spans):
        for before, (other_start, other_end) in enumerate(spans[:at]):
            if numbers[before] == numbers[at]:
                assert start >= other_end or (other_start <= start and end <= other_end)
