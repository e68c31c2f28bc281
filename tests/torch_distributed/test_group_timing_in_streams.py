"""Which operations of a group are queued in streams, by the backends of its devices."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from allreduce_instrumentation.torch_distributed import _group_timing  # noqa: E402
from allreduce_instrumentation.torch_distributed._group_timing import GroupTiming  # noqa: E402
from allreduce_instrumentation.torch_distributed._operations import (  # noqa: E402
    DeviceOperation,
    Nccl2Operation,
)
from timing_logger import TimingLogger  # noqa: E402


class Group:
    """A group as far as its timing asks it."""

    group_desc, group_name = "default_pg", "0"
    _device_types = ("cuda",)

    def __init__(self, backend: str) -> None:
        self._backend = backend

    def _get_backend(self, device: object) -> Any:
        return SimpleNamespace(name=lambda: self._backend)

    def size(self) -> int:
        return 4

    def rank(self) -> int:
        return 0


def timing_of(logger: TimingLogger, backend: str = "nccl", **backends: str) -> GroupTiming:
    group: Any = Group(backend)
    return GroupTiming(group, logger, backends)


CPU, CUDA = torch.device("cpu"), torch.device("cuda", 1)


@pytest.mark.parametrize(
    ("backends", "on_cpu", "on_cuda", "untold"),
    [
        ({"cpu": "gloo"}, False, False, False),
        ({"cuda": "nccl"}, False, True, True),
        ({"cpu": "gloo", "cuda": "nccl"}, False, True, False),
        ({"cpu": "gloo", "cuda": "gloo"}, False, False, False),
        ({"cpu": "fake", "cuda": "nccl"}, False, True, False),
        ({}, False, False, False),
    ],
)
def test_operations_are_in_a_stream_where_the_backend_of_their_device_works_so(
    backends: dict[str, str], on_cpu: bool, on_cuda: bool, untold: bool, logger: TimingLogger
) -> None:
    timing = timing_of(logger, **backends)
    assert [timing.in_stream(device) for device in (CPU, CUDA, None)] == [on_cpu, on_cuda, untold]
    assert timing.has_streams is on_cuda
    assert timing.timed_in_streams == (["cuda"] if on_cuda else [])


def test_operations_of_the_newer_backend_are_of_a_class_of_their_own_and_not_timed_in_c(
    logger: TimingLogger,
) -> None:
    timing = timing_of(logger, "nccl2", cuda="nccl")
    assert timing.on_device is Nccl2Operation
    assert timing.timed_in_streams == []
    assert timing_of(logger, "nccl", cuda="nccl").on_device is DeviceOperation


def test_a_group_is_made_known_to_the_logger_by_its_name(logger: TimingLogger) -> None:
    added: list[Any] = []
    known: Any = SimpleNamespace(add_group=lambda identity, name: added.append((identity.size, name)))
    timing_of(known, cpu="gloo")
    assert added == [(4, "default_pg 0")]


def test_before_the_group_ends_its_own_operations_are_let_end(
    logger: TimingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(_group_timing, "let_end", asked.append)
    timing_of(logger, cpu="gloo").let_callbacks_end()
    (is_of_the_group,) = asked
    assert is_of_the_group(SimpleNamespace(group="default_pg 0"))
    assert not is_of_the_group(SimpleNamespace(group="default_pg 1"))
    assert not is_of_the_group(SimpleNamespace())
