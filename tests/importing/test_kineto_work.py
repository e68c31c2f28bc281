"""The rows of copies and of other work, from what was kept of a trace."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from timing_logger.importing.imported import LeftOut
from timing_logger.importing.kineto_events import (
    BACKWARD_WORK,
    COMMUNICATION,
    WORK,
    Annotation,
    Axis,
    Kept,
    Kernels,
    Ran,
    Span,
    Thread,
)
from timing_logger.importing.kineto_work import Lanes, outermost, work_rows
from timing_logger.importing.trace_events import Args
from timing_logger.schema.record import Record

AXIS = Axis(0, {4: Span(0.0, 100.0)})
LANES = Lanes(8, {9: "loader"})


def copies_of(*copies: tuple[str, Args]) -> tuple[list[Record], LeftOut]:
    """Return the rows of copies with these names and arguments, and what was left out."""
    kept = Kept(LeftOut(), copies=[Ran(Span(10.0, 12.0), name, args) for name, args in copies])
    return [Record(*row) for row in work_rows(kept, AXIS, Lanes(None, {}))], kept.left_out


@pytest.mark.parametrize(
    ("n_bytes", "size"),
    [(0, 0), (4096, 4096), (-1, None), (2**62 - 1, 2**62 - 1), (2**62, None), ("9", None), (True, None)],
)
def test_a_copy_has_its_bytes_if_they_can_be(n_bytes: Any, size: int | None) -> None:
    ((row,), _) = copies_of(("Memcpy HtoD", Args(bytes=n_bytes, device=0, stream=7)))
    assert row.message_size_bytes == size
    assert (row.operation, row.iteration, row.clock) == ("H2D", 4, "device")
    assert (row.start_ns, row.end_ns) == (10_000, 12_000)


def test_a_copy_within_the_host_is_left_out() -> None:
    rows, left_out = copies_of(("Memcpy HtoH", Args()), ("Memcpy DtoD", Args()))
    assert [row.operation for row in rows] == ["D2D"]
    assert left_out == {"a copy neither between host and device nor within a device": 1}


# -- threads -----------------------------------------------------------------------------------------


def thread_of(*calls: tuple[float, float, int]) -> Thread:
    """Return a thread with these events: from when to when, and of which kind."""
    starts_us, ends_us, kinds = zip(*calls, strict=True)
    return Thread(array("d", starts_us), array("d", ends_us), array("b", kinds))


def rows_of(lanes: Lanes = LANES, axis: Axis = AXIS, **kept: Any) -> list[Any]:
    """Return operation, step, start and end in us, and thread of the rows of what was kept of a trace."""
    rows = [Record(*row) for row in work_rows(Kept(LeftOut(), **kept), axis, lanes)]
    return [
        (row.operation, row.iteration, row.start_ns / 1e3, (row.end_ns or 0) / 1e3, row.thread)
        for row in rows
    ]


def test_the_thread_of_the_steps_is_the_main_one() -> None:
    threads = {9: thread_of(*[(1.0, 2.0, WORK)] * 3)}
    lanes = Lanes.of(Kept(LeftOut(), step_thread=8, threads=threads, names={9: "thread 9 (loader)"}))
    assert lanes == (8, {9: "loader"})
    assert [lanes.name(tid) for tid in (8, 9, 7)] == ["MainThread", "loader 9", "thread 7"]


def test_without_steps_the_main_thread_is_the_one_that_does_most_and_makes_no_backward_pass() -> None:
    threads = {tid: thread_of(*[(1.0, 2.0, WORK)] * n) for tid, n in ((5, 1), (6, 2), (7, 3))}
    lanes = Lanes.of(Kept(LeftOut(), threads=threads, names={7: "thread 7 (pt_autograd_0)"}))
    assert lanes.main == 6
    assert [lanes.is_main(tid) for tid in (5, 6, 7)] == [False, True, True]
    assert [lanes.name(tid) for tid in (5, 6, 7)] == ["thread 5", "MainThread", "MainThread"]


def test_without_threads_none_is_the_main_one() -> None:
    assert Lanes.of(Kept(LeftOut())).main is None


def test_an_annotation_is_a_row_of_its_thread_in_the_step_of_its_begin() -> None:
    annotations = [
        Annotation(Span(90.0, 150.0), 8, "FORWARD", "net"), Annotation(Span(101.0, 102.0), 9, "DATA", ""),
    ]  # fmt: skip
    assert rows_of(annotations=annotations) == [
        ("FORWARD", 4, 90.0, 150.0, "MainThread"), ("DATA", None, 101.0, 102.0, "loader 9"),
    ]  # fmt: skip


def test_the_layer_of_an_annotation_is_that_of_its_row() -> None:
    kept = Kept(LeftOut(), annotations=[Annotation(Span(1.0, 2.0), 8, "FORWARD", "net")])
    (row,) = (Record(*row) for row in work_rows(kept, AXIS, LANES))
    assert (row.layer_name, row.clock, row.stream, row.message_size_bytes) == ("net", "host", "", None)


@pytest.mark.parametrize(
    ("second_us", "ends"), [(1002.0, [1003.0]), (1002.1, [2.0, 1003.1])], ids=["no more", "more"]
)
def test_operations_a_millisecond_apart_are_one_row(second_us: float, ends: list[float]) -> None:
    calls = thread_of((1.0, 2.0, WORK), (second_us, second_us + 1.0, WORK))
    rows = rows_of(axis=Axis(0, {4: Span(0.0, 5000.0)}), threads={8: calls})
    assert [row[3] for row in rows] == ends
    assert {(row[0], row[1]) for row in rows} == {("COMPUTE", 4)}


def test_parts_of_a_backward_pass_are_one_row_however_far_they_are_apart() -> None:
    calls = thread_of((1.0, 2.0, BACKWARD_WORK), (5000.0, 5001.0, BACKWARD_WORK))
    assert rows_of(axis=Axis(0, {4: Span(0.0, 6000.0)}), threads={8: calls}) == [
        ("BACKWARD", 4, 1.0, 5001.0, "MainThread")
    ]


def test_what_is_of_another_kind_or_another_step_is_a_row_of_its_own_and_communication_none() -> None:
    calls = [
        (1.0, 2.0, WORK), (3.0, 4.0, BACKWARD_WORK), (5.0, 6.0, COMMUNICATION), (7.0, 8.0, WORK),
        (9.0, 10.0, WORK), (101.0, 102.0, WORK), (103.0, 104.0, WORK), (151.0, 152.0, WORK),
    ]  # fmt: skip
    axis = Axis(0, {4: Span(0.0, 100.0), 5: Span(150.0, 200.0)})
    assert rows_of(axis=axis, threads={8: thread_of(*calls)}) == [
        ("COMPUTE", 4, 1.0, 2.0, "MainThread"), ("BACKWARD", 4, 3.0, 4.0, "MainThread"),
        ("COMPUTE", 4, 7.0, 10.0, "MainThread"), ("COMPUTE", None, 101.0, 104.0, "MainThread"),
        ("COMPUTE", 5, 151.0, 152.0, "MainThread"),
    ]  # fmt: skip


def test_what_lies_in_an_annotation_of_the_main_thread_is_told_by_that_but_for_backward_passes() -> None:
    annotations = [
        Annotation(Span(10.0, 20.0), 8, "FORWARD", ""), Annotation(Span(12.0, 14.0), 8, "DATA", ""),
        Annotation(Span(18.0, 30.0), 8, "LOSS", ""), Annotation(Span(40.0, 50.0), 9, "DATA", ""),
    ]  # fmt: skip
    at = [(9.0, WORK), (10.0, WORK), (15.0, WORK), (29.0, BACKWARD_WORK), (30.0, WORK), (45.0, WORK)]
    calls = thread_of(*((begin, begin + 0.5, kind) for begin, kind in at))
    rows = rows_of(annotations=annotations, threads={8: calls})
    assert rows[len(annotations) :] == [
        ("COMPUTE", 4, 9.0, 9.5, "MainThread"), ("BACKWARD", 4, 29.0, 29.5, "MainThread"),
        ("COMPUTE", 4, 30.0, 45.5, "MainThread"),
    ]  # fmt: skip


def test_work_lies_in_annotations_that_overlap_behind_others_and_not_between_them() -> None:
    spans = [(10.0, 20.0), (30.0, 50.0), (35.0, 40.0), (50.0, 60.0)]
    annotations = [Annotation(Span(*span), 8, "LOSS", "") for span in spans]
    at = (15.0, 25.0, 32.0, 45.0, 55.0, 60.0)
    calls = thread_of(*((begin, begin + 0.5, WORK) for begin in at))
    rows = rows_of(annotations=annotations, threads={8: calls})
    assert [row[2] for row in rows[len(spans) :]] == [25.0, 60.0]


def test_other_threads_are_not_the_work_of_the_rank_and_an_empty_one_is_none() -> None:
    threads = {9: thread_of((1.0, 2.0, WORK)), 8: Thread(), 7: thread_of((1.0, 2.0, BACKWARD_WORK))}
    lanes = Lanes(8, {7: "pt_autograd_0"})
    assert rows_of(lanes, threads=threads) == [("BACKWARD", 4, 1.0, 2.0, "MainThread")]


def test_events_within_others_are_not_outermost_and_those_that_begin_where_one_ends_are() -> None:
    calls = [
        (20.0, 25.0, WORK), (1.0, 10.0, BACKWARD_WORK), (2.0, 3.0, WORK), (1.0, 2.0, WORK),
        (10.0, 12.0, WORK), (11.0, 30.0, WORK),
    ]  # fmt: skip
    lane = outermost(thread_of(*calls))
    assert (lane.starts_us.tolist(), lane.ends_us.tolist(), lane.kinds.tolist()) == (
        [1.0, 10.0], [10.0, 12.0], [BACKWARD_WORK, WORK],
    )  # fmt: skip


# -- devices -----------------------------------------------------------------------------------------


def test_where_kernels_tell_the_work_operations_of_the_host_do_not() -> None:
    threads = {8: thread_of((1.0, 2.0, WORK), (3.0, 4.0, BACKWARD_WORK))}
    streams = {(0, 7): kernels_of((10.0, 12.0, -1))}
    assert [row[0] for row in rows_of(threads=threads, streams=streams)] == ["BACKWARD", "COMPUTE"]


def kernels_of(*kernels: tuple[float, float, int]) -> Kernels:
    starts_us, ends_us, correlations = zip(*kernels, strict=True)
    return Kernels(array("d", starts_us), array("d", ends_us), array("q", correlations))


def test_kernels_no_more_than_20_us_apart_are_one_row_of_their_stream() -> None:
    streams = {
        (0, 7): kernels_of((62.0, 63.0, -1), (10.0, 20.0, -1), (40.0, 41.0, -1), (12.0, 15.0, -1)),
        (1, 9): kernels_of((11.0, 12.0, -1)),
    }
    rows = [Record(*row) for row in work_rows(Kept(LeftOut(), streams=streams), AXIS, LANES)]
    assert [(row.stream, row.start_ns, row.end_ns, row.operation, row.clock) for row in rows] == [
        ("cuda:0/7", 10_000, 41_000, "COMPUTE", "device"), ("cuda:0/7", 62_000, 63_000, "COMPUTE", "device"),
        ("cuda:1/9", 11_000, 12_000, "COMPUTE", "device"),
    ]  # fmt: skip


def test_kernels_and_copies_are_of_the_step_in_which_they_were_launched() -> None:
    kept = Kept(
        LeftOut(),
        streams={(0, 7): kernels_of((70.0, 71.0, 3), (72.0, 73.0, 1), (74.0, 75.0, 2))},
        copies=[Ran(Span(80.0, 81.0), "Memcpy HtoD", Args(correlation=2, device=0, stream=7))],
    )
    for correlation, at_us in ((2, 40.0), (1, 10.0), (3, 5.0)):
        kept.launches.add(correlation, at_us)
    axis = Axis(0, {4: Span(0.0, 30.0), 5: Span(35.0, 100.0)})
    rows = [Record(*row) for row in work_rows(kept, axis, LANES)]
    assert [(row.operation, row.iteration, row.start_ns) for row in rows] == [
        ("COMPUTE", 4, 70_000), ("COMPUTE", 5, 74_000), ("H2D", 5, 80_000),
    ]  # fmt: skip
    assert {row.stream for row in rows} == {"cuda:0/7"}
