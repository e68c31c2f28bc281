"""What timing takes from the training: time of its threads, room in streams, streams of the pool."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import device_spans
import pytest
import torch
import torch.distributed as dist
from recordings import Figure, Recording
from spinning import spin

from timing_logger.recording.device.devices import MOST_INTERVALS

STREAMS_OF_THE_POOL = 32  # of each priority; torch gives them to everybody in turn
BLOCKED_S = 0.05  # what a call that queues takes only if it waits for the device

needs_nccl = pytest.mark.skipif(not dist.is_nccl_available(), reason="this torch has no NCCL")


# -- the thread that queues --------------------------------------------------------------------------------


def test_what_a_span_costs_beside_two_bare_events(recording: Recording, figure: Figure) -> None:
    before = recording.clock
    found = device_spans.compare()
    after = recording.clock
    for name, ratio in device_spans.ratios(found).items():
        figure(name, f"{statistics.median(found[name]):.0f} ns, {ratio:.2f} times two bare marks")
    # else some of the spans had no marks, and cost less for it
    assert (after.full, after.exhausted) == (before.full, before.exhausted)


class _Reduces(torch.autograd.Function):
    """A backward pass that reduces eight tensors in the background and asks for futures, as DDP does."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: dist.ProcessGroup, tensor: torch.Tensor) -> torch.Tensor:
        ctx.group, ctx.tensor = group, tensor
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        for _ in range(8):
            ctx.group.allreduce([ctx.tensor]).get_future()
        return gradient, None, None


def _reduce(group: Any, tensor: torch.Tensor) -> None:
    options = dist.AllreduceOptions()
    options.asyncOp = False
    group.allreduce([tensor], options)


def _reduce_in_background(group: Any, tensor: torch.Tensor) -> None:
    group.allreduce([tensor]).wait()


def _reduce_in_a_backward_pass(group: Any, tensor: torch.Tensor) -> None:
    x = torch.ones(1, device="cuda", requires_grad=True)
    _Reduces.apply(x, group, tensor).sum().backward()  # type: ignore[no-untyped-call]


@needs_nccl
@pytest.mark.parametrize(
    ("reduce", "reductions"),
    [(_reduce, 1), (_reduce_in_background, 1), (_reduce_in_a_backward_pass, 8)],
    ids=["all_reduce", "all_reduce in the background and its wait", "a bucket in a backward pass"],
)
def test_what_a_timed_reduction_costs_the_thread_that_queues_it(
    nccl: Recording,
    figure: Figure,
    reduce: Callable[[Any, torch.Tensor], None],
    reductions: int,
    request: pytest.FixtureRequest,
) -> None:
    """A figure, on a stream that is never full."""
    full_before, tensor = nccl.clock.full, torch.ones(1000, device="cuda")
    pairs = []
    for _ in range(25):
        untimed_us, timed_us = (
            _us_each(lambda group=group: reduce(group, tensor), 100 // reductions)
            for group in (dist.group.WORLD.untimed, dist.group.WORLD)
        )
        pairs.append((untimed_us / reductions, timed_us / reductions))
        nccl.forget()
    untimed, more = statistics.median(u for u, _ in pairs), statistics.median(t - u for u, t in pairs)
    figure(f"{request.node.callspec.id}, untimed {untimed:.1f} us of the host", f"{more:+.1f} us timed")
    assert nccl.clock.full == full_before


def _us_each(call: Callable[[], None], calls: int) -> float:
    torch.cuda.synchronize()
    begun_s = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - begun_s) * 1e6 / calls


# -- full streams ------------------------------------------------------------------------------------------


def test_no_mark_is_made_in_a_stream_where_256_intervals_wait(recording: Recording) -> None:
    full_before, done = recording.clock.full, torch.cuda.Event()
    spin(2000)
    for _ in range(2 * MOST_INTERVALS):
        with recording.logger.record_device_operation("WAITS"):
            pass
    done.record()
    assert not done.query(), "the stream was not kept busy for long enough to tell"
    statuses = [row.status for row in recording.rows]
    unresolved = statuses.count("unresolved")
    assert len(statuses) == 2 * MOST_INTERVALS
    assert recording.clock.full - full_before == unresolved
    assert MOST_INTERVALS <= unresolved < MOST_INTERVALS + 50  # some that have passed are still counted


def test_a_stream_that_was_full_is_timed_again_when_it_gets_on(recording: Recording) -> None:
    spin(500)
    for _ in range(2 * MOST_INTERVALS):
        with recording.logger.record_device_operation("WAITS"):
            pass
    torch.cuda.synchronize()
    recording.forget()
    with recording.logger.record_device_operation("AFTERWARDS"):
        spin(1)
    (row,) = recording.rows
    assert (row.clock, row.status) == ("device", "ok")


@pytest.mark.parametrize("what", ["kernel launches", "marks"])
def test_our_marks_alone_never_fill_a_stream(figure: Figure, what: str) -> None:
    x = torch.zeros(1, device="cuda")
    events = [torch.cuda.Event(enable_timing=True) for _ in range(10_000)]
    x.add_(1)
    torch.cuda.synchronize()
    spin(1000)
    fill: Callable[[int], object] = (lambda _: x.add_(1)) if what == "kernel launches" else _marking(events)
    filled_by = _first_that_blocks(fill, len(events))
    torch.cuda.synchronize()
    figure(f"{what} that a stream takes", f"{filled_by:,}")
    assert filled_by > 2 * MOST_INTERVALS


def _marking(events: list[torch.cuda.Event]) -> Callable[[int], object]:
    return lambda number: events[number].record()


def _first_that_blocks(call: Callable[[int], object], most: int) -> int:
    """How many calls return at once; ``most`` if all of them do."""
    for number in range(most):
        begun_s = time.perf_counter()
        call(number)
        if time.perf_counter() - begun_s > BLOCKED_S:
            return number
    return most


@pytest.mark.parametrize("timed", [False, True])
def test_how_long_other_threads_stand_still_beside_a_stream_full_of_launches(
    recording: Recording, figure: Figure, timed: bool
) -> None:
    """torch marks with the interpreter's lock held, launches without: a figure, of what is not prevented."""
    x = torch.zeros(1, device="cuda")
    x.add_(1)
    torch.cuda.synchronize()
    with _longest_stand() as stood_s:
        spin(300)
        for number in range(1500):
            x.add_(1)
            if timed and number % 10 == 0:
                with recording.logger.record_device_operation("STEP"):
                    pass
        torch.cuda.synchronize()
    figure(
        f"another thread beside a stream full of launches for 300 ms, {'' if timed else 'un'}timed",
        f"stands still for {max(stood_s) * 1e3:.1f} ms",
    )
    assert {row.status for row in recording.rows} <= {"ok", "unresolved"}


@contextmanager
def _longest_stand() -> Iterator[list[float]]:
    """A thread that looks at the clock every half millisecond; what lay between its looks, in seconds."""
    between_s: list[float] = []
    stop = threading.Event()

    def look() -> None:
        last_s, stopped = time.perf_counter(), False
        while not stopped:
            stopped = stop.wait(0.0005)
            now_s = time.perf_counter()
            between_s.append(now_s - last_s)
            last_s = now_s

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield between_s
    finally:
        stop.set()
        thread.join()


# -- streams of the pool -----------------------------------------------------------------------------------


@needs_nccl
def test_ddps_buckets_hold_no_stream_of_the_pool_but_nccls_and_the_one_that_waits(
    nccl: Recording, figure: Figure
) -> None:
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4))).cuda(), bucket_cap_mb=0.01
    )
    for _ in range(12):  # DDP makes its buckets anew after the first step, and waits to measure itself in ten
        _step(model)
    torch.cuda.synchronize()
    nccl.forget()
    pools = {priority: _pool(priority) for priority in (0, -1)}
    done = torch.cuda.Event()
    spin(500)  # the buckets are reduced behind it
    for _ in range(3):
        _step(model)
    held = {priority: sum(not stream.query() for stream in pool) for priority, pool in pools.items()}
    done.record()
    assert not done.query(), "the stream was not kept busy for long enough to tell"
    buckets = [row for row in nccl.rows if row.operation == "IALLREDUCE"]
    figure(f"streams held by {len(buckets)} of DDP's buckets, of two pools of 32", str(sum(held.values())))
    assert {row.status for row in buckets} == {"ok"}
    assert len(buckets) >= 12
    assert held[0] <= 1  # NCCL's
    assert held[-1] <= 1  # in which we wait


def _step(model: torch.nn.Module) -> None:
    model(torch.ones(8, 64, device="cuda")).sum().backward()


def _pool(priority: int) -> list[torch.cuda.Stream]:
    """All streams of that priority which torch gives to whoever asks."""
    streams = {
        stream.stream_id: stream
        for stream in (torch.cuda.Stream(priority=priority) for _ in range(2 * STREAMS_OF_THE_POOL))
    }
    assert len(streams) == STREAMS_OF_THE_POOL
    return list(streams.values())
