"""What is kept of single events of a trace, whatever they lack."""

from __future__ import annotations

from typing import Any

import pytest

from timing_logger.importing.imported import LeftOut
from timing_logger.importing.kineto_events import BACKWARD_WORK, COMMUNICATION, WORK, Kept
from timing_logger.importing.trace_events import Args, Event


def kept_of(*events: Event) -> Kept:
    kept = Kept(LeftOut())
    kept.take(list(events))
    return kept


def event(name: str, cat: str, ts: float = 10.0, dur: float = 5.0, **fields: Any) -> Event:
    return Event(name, "X", cat, 7, 8, ts, dur, **fields)


@pytest.mark.parametrize("cat", ["cpu_op", "user_annotation"])
def test_an_operation_of_gloo_without_arguments_is_kept(cat: str) -> None:
    (ran,) = kept_of(event("gloo:all_reduce", cat)).gloo
    assert (ran.span, ran.name, ran.args) == ((10.0, 15.0), "gloo:all_reduce", None)


def test_a_copy_without_arguments_is_kept() -> None:
    (copy,) = kept_of(event("Memcpy HtoD", "gpu_memcpy")).copies
    assert (copy.span, copy.args) == ((10.0, 15.0), None)


def test_arguments_are_kept() -> None:
    (copy,) = kept_of(event("Memcpy HtoD", "gpu_memcpy", args=Args(bytes=4096))).copies
    assert copy.args is not None
    assert copy.args.bytes == 4096


def test_a_launch_is_kept_if_it_has_a_number() -> None:
    numbers = [0, 7, 2**63 - 1]
    unusable: list[Any] = [-1, 2**63, 1.0, "1", None, True]
    launches = [event("launch", "cuda_runtime", args=Args(correlation=one)) for one in numbers + unusable]
    kept = kept_of(*launches, event("launch", "cuda_runtime")).launches
    assert (list(kept.correlations), list(kept.at_us)) == (numbers, [10.0] * 3)


def test_of_a_thread_what_lies_in_the_event_before_is_not_kept() -> None:
    names = ["aten::mm", "autograd::engine::evaluate_function: MmBackward0", "c10d::allreduce_"]
    events = []
    for begin_us, name in zip((0.0, 20.0, 40.0), names, strict=True):
        events.append(event(name, "cpu_op", begin_us, 10.0))
        events += [event("aten::add", "cpu_op", begin_us + at, 10.0 - at) for at in (0.0, 1.0)]
    (thread,) = kept_of(*events).threads.values()
    assert list(thread.starts_us) == [0.0, 20.0, 40.0]
    assert list(thread.ends_us) == [10.0, 30.0, 50.0]
    assert list(thread.kinds) == [WORK, BACKWARD_WORK, COMMUNICATION]


def test_kernels_are_kept_by_device_and_stream() -> None:
    kernels = [
        event("sgemm", "kernel", args=Args(device=0, stream=7, correlation=3)),
        event("sgemm", "kernel", args=Args(device=1, stream=7)),
        event("sgemm", "kernel", args=Args(stream=9)),
    ]
    streams = kept_of(*kernels).streams
    assert {stream: list(of.correlations) for stream, of in streams.items()} == {
        (0, 7): [3], (1, 7): [-1], (7, 9): [-1],
    }  # fmt: skip


@pytest.mark.parametrize(("ts", "dur"), [(-1.0, 1.0), (2.0**62 / 1e3 * 2, 1.0), (1.0, -1.0), (1.0, 2e12)])
def test_an_event_whose_times_are_impossible_is_left_out(ts: float, dur: float) -> None:
    kept = kept_of(event("aten::mm", "cpu_op", ts, dur), event("aten::mm", "cpu_op", 0.0, 0.0))
    assert kept.left_out == {"an event whose times are impossible": 1}
    assert [list(thread.starts_us) for thread in kept.threads.values()] == [[0.0]]


def test_a_step_with_a_number_that_none_can_have_is_no_step() -> None:
    names = ["ProfilerStep#3", "ProfilerStep#x", "ProfilerStep#" + "1" * 19]
    kept = kept_of(*(event(name, "user_annotation") for name in names))
    assert (list(kept.steps), kept.step_thread, kept.pid) == ([3], 8, 7)


def test_threads_are_known_by_their_names() -> None:
    named = Event("thread_name", "M", "", 7, 8, args=Args(thread_name="loader"))
    assert kept_of(named, Event("thread_name", "M", "", 7, 9)).names == {8: "loader"}


def test_an_event_may_begin_as_late_and_last_as_long_as_a_row_can_hold() -> None:
    kept = kept_of(event("aten::mm", "cpu_op", 2.0**62 / 1e3, 1e12))
    assert (len(kept.threads[8].starts_us), kept.left_out) == (1, {})


@pytest.mark.parametrize("ph", ["B", "i", "M", ""])
def test_an_event_without_a_duration_is_not_kept(ph: str) -> None:
    kept = kept_of(Event("aten::mm", ph, "cpu_op", 7, 8, 10.0, 5.0))
    assert kept == kept_of()


def test_an_event_of_a_category_that_is_not_needed_is_not_kept() -> None:
    assert (
        kept_of(event("aten::mm", "python_function"), event("ncclDevKernel", "overhead", -1.0)) == kept_of()
    )


@pytest.mark.parametrize("cat", ["kernel", "Kernel"])
def test_kernels_of_communication_are_kept_apart_from_own_work(cat: str) -> None:
    args = Args(device=0, stream=7, collective="allreduce")
    kept = kept_of(event("ncclDevKernel_AllReduce", cat), event("mine", cat, args=args), event("sgemm", cat))
    assert [(ran.name, ran.span) for ran in kept.kernels] == [
        ("ncclDevKernel_AllReduce", (10.0, 15.0)), ("mine", (10.0, 15.0)),
    ]  # fmt: skip
    assert kept.kernels[1].args == args
    assert list(kept.streams) == [(7, None)]


def test_what_gloo_does_and_a_wait_for_a_tensor_is_no_work_of_its_thread() -> None:
    kept = kept_of(event("gloo:all_reduce", "cpu_op"), event("_c10d_functional::wait_tensor", "cpu_op"))
    assert (kept.threads, len(kept.gloo)) == ({}, 1)


def test_a_call_of_c10d_is_communication_and_kept_if_it_is_a_collective() -> None:
    kept = kept_of(event("c10d::allreduce_", "Operator"), event("c10d::dance", "cpu_op", 20.0))
    assert kept.calls == [((10.0, 15.0), 8, "ALLREDUCE", None)]
    assert list(kept.threads[8].kinds) == [COMMUNICATION] * 2


def test_parameters_are_kept_if_they_name_a_collective() -> None:
    args = Args(collective="allreduce", seq=3)
    calls = [
        event("record_param_comms", "cpu_op", 10.0 + 10 * i, args=one)
        for i, one in enumerate((None, Args(), Args(collective="wait"), args))
    ]
    kept = kept_of(*calls)
    assert kept.parameters == [((40.0, 45.0), 8, "ALLREDUCE", args)]
    assert list(kept.threads[8].kinds) == [COMMUNICATION] * 4


def test_an_annotation_is_kept_with_its_thread_and_one_of_a_backend_is_not() -> None:
    kept = kept_of(event("load#x", "user_annotation"), event("nccl:all_reduce", "user_annotation"))
    assert kept.annotations == [((10.0, 15.0), 8, "LOAD", "x")]


def test_a_step_may_have_a_number_of_18_digits_and_its_process_another_name_than_a_number() -> None:
    step = Event("ProfilerStep#" + "1" * 18, "X", "user_annotation", "python 7", [8], 10.0, 5.0)
    kept = kept_of(step)
    assert (list(kept.steps), kept.step_thread, kept.pid) == ([int("1" * 18)], None, 0)


@pytest.mark.parametrize("cat", ["cuda_driver", "Runtime"])
def test_launches_are_of_several_categories(cat: str) -> None:
    assert list(kept_of(event("launch", cat, args=Args(correlation=3))).launches.correlations) == [3]


def test_events_that_only_overlap_are_both_kept_of_a_thread() -> None:
    kept = kept_of(*(event("aten::mm", "cpu_op", at, 10.0) for at in (10.0, 15.0, 5.0)))
    assert list(kept.threads[8].starts_us) == [10.0, 15.0, 5.0]
