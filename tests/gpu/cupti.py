"""What a device really did and when, by CUPTI, as ``torch.profiler`` tells it: nothing of it is ours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

NOT_WORK = ("Sync", "Event")  # what waits for work, and marks


class DeviceWork(NamedTuple):
    """A kernel or a copy.

    Attributes:
        start_ns, end_ns: in ``perf_counter_ns``.
        stream: CUPTI's number of the stream.
    """

    start_ns: int
    end_ns: int
    name: str
    stream: int

    @property
    def ms(self) -> float:
        return (self.end_ns - self.start_ns) / 1e6

    def is_spin(self) -> bool:
        return "spin" in self.name

    def is_copy(self) -> bool:
        return "Memcpy" in self.name


def device_work(function: Callable[[], object]) -> list[DeviceWork]:
    """Everything that the device did for ``function``, in the order of the starts."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as profiler:
        unix_ns = _unix_at_zero_ns()
        function()
        torch.cuda.synchronize()
    events = profiler.profiler.kineto_results.events()
    found = [_placed(event, unix_ns) for event in events if _is_work(event)]
    assert found, "the profiler saw nothing of the device"
    return sorted(found)


def both_ns(some: Iterable[DeviceWork], others: Iterable[DeviceWork]) -> int:
    """For how long one of ``some`` ran while one of ``others`` did; within each, nothing runs at once."""
    others = list(others)
    return sum(
        max(0, min(one.end_ns, other.end_ns) - max(one.start_ns, other.start_ns))
        for one in some
        for other in others
    )


def _is_work(event: torch._C._autograd._KinetoEvent) -> bool:
    on_device = event.device_type() == torch.autograd.DeviceType.CUDA
    return on_device and not event.is_user_annotation() and not any(part in event.name() for part in NOT_WORK)


def _placed(event: torch._C._autograd._KinetoEvent, unix_ns: int) -> DeviceWork:
    start_ns = event.start_ns() - unix_ns
    return DeviceWork(start_ns, start_ns + event.duration_ns(), event.name(), event.device_resource_id())


def _unix_at_zero_ns() -> int:
    """Unix time at ``perf_counter() == 0``, by the quickest of a hundred looks at both clocks."""
    looks = []
    for _ in range(100):
        before_ns, unix_ns, after_ns = time.perf_counter_ns(), time.time_ns(), time.perf_counter_ns()
        looks.append((after_ns - before_ns, unix_ns - (before_ns + after_ns) // 2))
    return min(looks)[1]
