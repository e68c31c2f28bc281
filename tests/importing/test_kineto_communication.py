"""The rows of collectives and messages, from what was kept of a trace."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest

from timing_logger.importing.imported import LeftOut
from timing_logger.importing.kineto_communication import Numbers, communication_rows
from timing_logger.importing.kineto_events import COMMUNICATION, WORK, Axis, Call, Kept, Ran, Span, Thread
from timing_logger.importing.kineto_names import Group
from timing_logger.importing.kineto_work import Lanes
from timing_logger.importing.trace_events import Args
from timing_logger.schema.record import Record

AXIS = Axis(1_000_000, {3: Span(0.0, 100.0), 4: Span(200.0, 300.0)})
MAIN, LOADER = 8, 9
LANES = Lanes(MAIN, {LOADER: "loader"})
KERNEL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
OTHER_KERNEL = "ncclDevKernel_Generic"
DP: dict[str, Any] = {"group": "1", "group_kind": "dp", "group_size": 2, "group_ranks": [2, 3]}

NO_OPERATION = "a kernel of NCCL of which nothing tells the operation"
NO_KERNEL = "a collective that has no kernel of its own in the trace"
UNKNOWN = "an operation of gloo of an unknown kind"
BEFORE = "a collective that was issued before the trace begins"
AFTER = "a collective that ends after the trace does"


def rows_of(kept: Kept, only: Group | None = None, from_step: int | None = None) -> list[Record]:
    found = communication_rows(kept, AXIS, LANES, only, "unnamed", from_step)
    return [Record(*row) for row in found]


def kept_of(**fields: Any) -> Kept:
    return Kept(LeftOut(), **fields)


def parameters(external_id: Any, start_us: float = 10.0, **args: Any) -> Call:
    """Return a call of an all-reduce with arguments."""
    return Call(
        Span(start_us, start_us + 2),
        MAIN,
        "ALLREDUCE",
        Args(external_id=external_id, collective="allreduce", **args),
    )


def kernel(external_id: Any, start_us: float = 210.0, name: str = OTHER_KERNEL, **args: Any) -> Ran:
    return Ran(Span(start_us, start_us + 20), name, Args(external_id=external_id, device=0, stream=7, **args))


def issued(operation: str, start_us: float, thread: int = MAIN, args: Args | None = None) -> Call:
    return Call(Span(start_us, start_us + 2), thread, operation, args)


def by_gloo(name: str, start_us: float, end_us: float, args: Args | None = None) -> Ran:
    return Ran(Span(start_us, end_us), f"gloo:{name}", args)


# -- NCCL ------------------------------------------------------------------------------------------


def test_a_kernel_has_what_its_call_says() -> None:
    call = parameters(5, n_elements=1000, dtype="Float", seq=6, **DP)
    kept = kept_of(parameters=[call], kernels=[kernel(5)])
    assert rows_of(kept) == [
        Record(
            3, None, "", "ALLREDUCE", "", 4000, 1_210_000, 1_230_000, "device", "dp 1", 2, 6, None,
            "MainThread", "ok", "cuda:0/7",
        )
    ]  # fmt: skip
    assert not kept.left_out


def test_several_kernels_of_a_call_are_one_operation() -> None:
    kernels = [kernel(5, 220.0), kernel(6, 215.0), kernel(5, 210.0), kernel(5, 240.0)]
    rows = rows_of(kept_of(parameters=[parameters(5), parameters(6, 12.0)], kernels=kernels))
    assert [(row.start_ns, row.end_ns) for row in rows] == [(1_210_000, 1_260_000), (1_215_000, 1_235_000)]


@pytest.mark.parametrize("external_id", [None, 5, True])
def test_a_kernel_without_a_call_is_known_by_its_name_and_its_launch(external_id: Any) -> None:
    kept = kept_of(kernels=[kernel(external_id, name=KERNEL, correlation=77) for _ in range(2)])
    kept.launches.add(77, 50.0)
    assert [(row.operation, row.iteration, row.group, row.seq) for row in rows_of(kept)] == [
        ("ALLREDUCE", 3, "unnamed", 0), ("ALLREDUCE", 3, "unnamed", 1),
    ]  # fmt: skip
    assert {row.thread for row in rows_of(kept)} == {"thread None"}


def test_without_a_launch_the_start_of_a_kernel_tells_its_step() -> None:
    (row,) = rows_of(kept_of(kernels=[kernel(None, name=KERNEL)]))
    assert row.iteration == 4


def test_a_call_of_which_the_number_is_none_has_no_kernel() -> None:
    kept = kept_of(parameters=[parameters(True)], kernels=[kernel(True, name=KERNEL)])
    (row,) = rows_of(kept)
    assert row.iteration == 4
    assert not kept.left_out


def test_kernels_of_which_nothing_tells_the_operation_are_counted() -> None:
    call = Call(Span(1.0, 2.0), MAIN, "ALLREDUCE", Args(external_id=5))
    kept = kept_of(parameters=[call], kernels=[kernel(5), kernel(5), kernel(None)])
    assert rows_of(kept) == []
    assert kept.left_out == {NO_OPERATION: 3}


@pytest.mark.parametrize("with_gloo", [False, True])
def test_calls_without_a_kernel_are_counted_unless_gloo_may_have_carried_them_out(with_gloo: bool) -> None:
    calls = [parameters(number, 10.0 * number) for number in (1, 2, 3)]
    kept = kept_of(parameters=calls, kernels=[kernel(2)], gloo=[by_gloo("barrier", 1.0, 2.0)] * with_gloo)
    rows_of(kept)
    assert kept.left_out[NO_KERNEL] == (0 if with_gloo else 2)
    assert kept.left_out[AFTER] == 0


@pytest.mark.parametrize(
    ("n_elements", "dtype", "size"),
    [
        (3, "Double", 24), (0, "Float", 0), (2**61, "Byte", 2**61), (2**61, "Half", None),
        (2**60, "Int", None), (None, "Float", None), (3, "unheard", None), (-1, "Float", None),
    ],
)  # fmt: skip
def test_bytes_are_elements_of_a_type_if_a_row_can_hold_them(
    n_elements: Any, dtype: str, size: int | None
) -> None:
    call = parameters(5, n_elements=n_elements, dtype=dtype)
    (row,) = rows_of(kept_of(parameters=[call], kernels=[kernel(5)]))
    assert row.message_size_bytes == size


# -- groups, numbers and peers -----------------------------------------------------------------------


def test_where_no_group_is_named_it_is_the_only_one_of_the_run_and_else_an_unnamed_one() -> None:
    def groups(only: Group | None) -> list[tuple[str, int | None]]:
        kept = kept_of(parameters=[parameters(1, **DP), parameters(2, 20.0)], kernels=[kernel(1), kernel(2)])
        return [(row.group, row.group_size) for row in rows_of(kept, only)]

    assert groups(Group("all 0", 4)) == [("dp 1", 2), ("all 0", 4)]
    assert groups(None) == [("dp 1", 2), ("unnamed", None)]


def test_rows_are_in_the_order_of_their_issue_and_numbered_so_where_the_trace_has_no_numbers() -> None:
    calls = [parameters(number, at_us) for number, at_us in ((1, 40.0), (2, 20.0), (3, 30.0))]
    calls.append(parameters(4, 35.0, **DP))
    kernels = [kernel(number, 200.0 + number) for number in (1, 2, 3, 4)]
    rows = rows_of(kept_of(parameters=calls, kernels=kernels))
    assert [(row.start_ns - 1_200_000, row.group, row.seq) for row in rows] == [
        (2000, "unnamed", 0), (3000, "unnamed", 1), (4000, "dp 1", 0), (1000, "unnamed", 2),
    ]  # fmt: skip


def test_collectives_are_numbered_from_a_step_on() -> None:
    calls = [parameters(number, at_us) for number, at_us in ((1, 40.0), (2, 210.0), (3, 220.0), (4, 400.0))]
    kept = kept_of(parameters=calls, kernels=[kernel(number) for number in (1, 2, 3, 4)])
    assert [row.seq for row in rows_of(kept, from_step=4)] == [None, 0, 1, 2]


def test_a_group_has_no_number_before_its_first_collective_of_that_step() -> None:
    numbers = Numbers(from_step=2)
    steps = [None, 1, 2, None, 1, 3]
    assert [numbers.of("a", step) for step in steps] == [None, None, 0, 1, 2, 3]
    assert [numbers.of("b", step) for step in steps] == [None, None, 0, 1, 2, 3]
    assert [Numbers().of("a", step) for step in steps] == [0] * 6


@pytest.mark.parametrize(
    ("collective", "peer", "seq"),
    [
        ("send", 1, None), ("recv", 0, None), ("broadcast", 2, 6), ("reduce", 2, 6), ("gather", 2, 6),
        ("scatter", 2, 6), ("allreduce", None, 6), ("barrier", None, 6),
    ],
)  # fmt: skip
def test_a_message_has_its_other_rank_and_no_number_and_what_has_a_root_has_that(
    collective: str, peer: int | None, seq: int | None
) -> None:
    args = Args(external_id=5, collective=collective, rank=2, to_rank=3, from_rank=2, seq=6, **DP)
    call = Call(Span(10.0, 12.0), MAIN, "", args)
    (row,) = rows_of(kept_of(parameters=[call], kernels=[kernel(5)]))
    assert (row.peer, row.seq) == (peer, seq)


# -- gloo ------------------------------------------------------------------------------------------


def test_over_gloo_an_operation_lasts_from_its_issue_to_the_end_of_what_a_thread_of_gloo_does() -> None:
    kept = kept_of(calls=[issued("ALLREDUCE", 10.0, LOADER)], gloo=[by_gloo("all_reduce", 14.0, 30.0)])
    assert rows_of(kept, Group("all 0", 4)) == [
        Record(
            3, None, "", "IALLREDUCE", "", None, 1_010_000, 1_030_000, "host", "all 0", 4, 0, None,
            "loader 9", "ok", "",
        )
    ]  # fmt: skip
    assert not kept.left_out


def test_none_ends_before_it_was_issued() -> None:
    kept = kept_of(calls=[issued("BARRIER", 10.5)], gloo=[by_gloo("barrier", 9.5, 10.0)])
    (row,) = rows_of(kept)
    assert (row.start_ns, row.end_ns) == (1_010_500, 1_010_500)


@pytest.mark.parametrize(("issued_us", "is_taken"), [(9.0, True), (11.0, True), (11.1, False)])
def test_what_gloo_begins_more_than_a_microsecond_before_any_issue_was_issued_before_the_trace(
    issued_us: float, is_taken: bool
) -> None:
    kept = kept_of(calls=[issued("BARRIER", issued_us)], gloo=[by_gloo("barrier", 10.0, 40.0)])
    assert len(rows_of(kept)) == is_taken
    assert kept.left_out == ({} if is_taken else {BEFORE: 1, AFTER: 1})


def test_calls_of_a_kind_are_carried_out_in_their_order_whatever_order_they_are_kept_in() -> None:
    kept = kept_of(
        calls=[issued("ALLREDUCE", 20.0), issued("BARRIER", 15.0), issued("ALLREDUCE", 10.0)],
        gloo=[
            by_gloo("all_reduce", 40.0, 60.0),
            by_gloo("all_reduce", 21.0, 30.0),
            by_gloo("barrier", 50.0, 55.0),
        ],
    )
    assert [(row.operation, row.start_ns, row.end_ns) for row in rows_of(kept)] == [
        ("IALLREDUCE", 1_010_000, 1_030_000),
        ("IBARRIER", 1_015_000, 1_055_000),
        ("IALLREDUCE", 1_020_000, 1_060_000),
    ]


def test_what_gloo_does_of_an_unknown_kind_or_without_a_call_is_counted() -> None:
    kept = kept_of(
        gloo=[by_gloo("dance", 1.0, 2.0), by_gloo("barrier", 1.0, 2.0), by_gloo("barrier", 3.0, 4.0)]
    )
    assert rows_of(kept) == []
    assert kept.left_out == {UNKNOWN: 1, BEFORE: 2}


@pytest.mark.parametrize(
    ("gloo", "kernels", "n_after"), [(True, False, 2), (True, True, 0), (False, False, 0)]
)
def test_calls_that_gloo_did_not_carry_out_are_counted_where_nothing_else_can_have(
    gloo: bool, kernels: bool, n_after: int
) -> None:
    kept = kept_of(
        calls=[issued(name, 5.0) for name in ("BARRIER", "ALLREDUCE", "BCAST")],
        gloo=[by_gloo("barrier", 6.0, 9.0)] * gloo,
        kernels=[kernel(None, name=KERNEL)] * kernels,
    )
    rows_of(kept)
    assert kept.left_out[AFTER] == n_after


@pytest.mark.parametrize(
    ("inner_us", "thread", "n_calls"),
    [(10.0, MAIN, 1), (11.0, MAIN, 1), (12.0, MAIN, 1), (12.1, MAIN, 2), (9.9, MAIN, 2), (11.0, LOADER, 2)],
)
def test_a_call_with_arguments_within_another_of_its_thread_is_that_call(
    inner_us: float, thread: int, n_calls: int
) -> None:
    inner = Call(Span(inner_us, inner_us + 0.5), thread, "ALLREDUCE", Args(n_elements=4, dtype="Float"))
    kept = kept_of(
        calls=[issued("ALLREDUCE", 10.0)], parameters=[inner],
        gloo=[by_gloo("all_reduce", 20.0 + i, 30.0) for i in range(2)],
    )  # fmt: skip
    assert len(rows_of(kept)) == n_calls
    assert kept.left_out == ({} if n_calls == 2 else {BEFORE: 1})


def shaped(shapes: bytes, types: bytes) -> Args:
    return Args(shapes=msgspec.Raw(shapes), types=msgspec.Raw(types))


@pytest.mark.parametrize(
    ("args", "size"),
    [
        (shaped(b"[[2, 3], [], [5]]", b'["float", "", "long int"]'), 64),
        (shaped(b"[[]]", b'["double"]'), 8),
        (shaped(b"[[0]]", b'["double"]'), 0),
        (shaped(b"[[2], [3]]", b'["float", "unheard"]'), None),
        (shaped(b"", b'["float"]'), None),
        (shaped(b"[[2]]", b""), None),
        (shaped(b"[[-2]]", b'["float"]'), None),
        (shaped(b"[[1.5]]", b'["float"]'), None),
        (shaped(b'[["a"]]', b'["float"]'), None),
        (shaped(b"7", b'["float"]'), None),
        (shaped(b"[[" + b"9" * 18 + b"]]", b'["double"]'), None),
        (shaped(b"[[%d]]" % 2**62, b'["byte"]'), None),
        (shaped(b"[[%d]]" % (2**62 - 1), b'["byte"]'), 2**62 - 1),
        (None, None),
    ],
)
def test_over_gloo_shapes_tell_the_bytes_where_they_are_known(args: Args | None, size: int | None) -> None:
    kept = kept_of(calls=[issued("ALLREDUCE", 10.0)], gloo=[by_gloo("all_reduce", 14.0, 30.0, args)])
    (row,) = rows_of(kept)
    assert row.message_size_bytes == size


def test_over_gloo_the_arguments_of_the_call_tell_the_bytes_first() -> None:
    call = issued("ALLREDUCE", 10.0, args=Args(n_elements=4, dtype="Float", **DP))
    kept = kept_of(calls=[call], gloo=[by_gloo("all_reduce", 14.0, 30.0, shaped(b"[[7]]", b'["float"]'))])
    (row,) = rows_of(kept)
    assert (row.message_size_bytes, row.group) == (16, "dp 1")


# -- waits -----------------------------------------------------------------------------------------


def thread_of(*calls: tuple[float, float, int]) -> Thread:
    starts_us, ends_us, kinds = zip(*calls, strict=True)
    return Thread(array("d", starts_us), array("d", ends_us), array("b", kinds))


def operations_and_waits(rows: Iterable[Record]) -> Sequence[tuple[str, int, int]]:
    return [(row.operation, row.start_ns, row.end_ns or 0) for row in rows]


def test_the_wait_for_what_gloo_did_stands_behind_it_with_its_numbers() -> None:
    kept = kept_of(
        calls=[issued("ALLREDUCE", 10.0, args=Args(n_elements=4, dtype="Float", seq=6, **DP))],
        gloo=[by_gloo("all_reduce", 14.0, 60.0)],
        threads={MAIN: thread_of((10.0, 12.0, COMMUNICATION), (62.0, 65.0, WORK))},
    )
    operation, wait = rows_of(kept)
    assert operation.operation == "IALLREDUCE"
    assert wait == operation._replace(operation="WAIT", start_ns=1_012_000, end_ns=1_060_000)


def test_a_call_that_does_other_work_is_no_issue_and_who_goes_on_much_later_did_not_wait() -> None:
    for kind, ends_ns in ((COMMUNICATION, (1_012_000, 1_060_000)), (WORK, (1_060_000, 1_060_000))):
        kept = kept_of(
            calls=[issued("ALLREDUCE", 10.0)],
            gloo=[by_gloo("all_reduce", 14.0, 60.0)],
            threads={MAIN: thread_of((10.0, 12.0, kind), (9_000.0, 9_100.0, WORK))},
        )
        _, wait = rows_of(kept)
        assert (wait.start_ns, wait.end_ns) == ends_ns


def test_what_a_backward_pass_issues_the_main_thread_waits_for_and_other_threads_for_their_own() -> None:
    autograd = 17
    kept = kept_of(
        calls=[
            issued("ALLREDUCE", 10.0, autograd),
            issued("BARRIER", 10.0, LOADER),
            issued("BCAST", 11.0, 99),
        ],
        gloo=[
            by_gloo("all_reduce", 14.0, 60.0),
            by_gloo("barrier", 14.0, 70.0),
            by_gloo("broadcast", 14.0, 80.0),
        ],
        threads={
            MAIN: thread_of((1.0, 5.0, WORK), (61.0, 65.0, WORK)),
            LOADER: thread_of((10.0, 12.0, COMMUNICATION), (75.0, 80.0, WORK)),
        },
    )
    lanes = Lanes(MAIN, {autograd: "pt_autograd_0"})
    rows = [Record(*row) for row in communication_rows(kept, AXIS, lanes, None, "unnamed", None)]
    assert operations_and_waits(rows) == [
        ("IALLREDUCE", 1_010_000, 1_060_000), ("WAIT", 1_010_000, 1_060_000),
        ("IBARRIER", 1_010_000, 1_070_000), ("WAIT", 1_012_000, 1_070_000),
        ("IBCAST", 1_011_000, 1_080_000),
    ]  # fmt: skip
