"""Which world is timed, in one process: after one that could not be made, and after one that is gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch.distributed import distributed_c10d as c10d  # noqa: E402

from allreduce_instrumentation import init_process_group  # noqa: E402
from allreduce_instrumentation.torch_distributed import TimedProcessGroup, initialization  # noqa: E402
from allreduce_instrumentation.torch_distributed.initialization import (  # noqa: E402
    leave_new_groups_untimed,
    time_all_groups,
)
from timing_logger import TimingLogger  # noqa: E402
from timing_logger.errors import ConfigurationError  # noqa: E402


@pytest.fixture(autouse=True)
def _no_group_is_left() -> Iterator[None]:
    yield
    if dist.is_initialized():
        dist.destroy_process_group()
    leave_new_groups_untimed()


def begin(function: Any = init_process_group, **options: Any) -> Any:
    function("gloo", store=dist.HashStore(), rank=0, world_size=1, **options)
    return dist.group.WORLD


def are_torchs_own() -> bool:
    return c10d._new_process_group_helper.__module__ == c10d.__name__


def test_after_one_that_failed_torchs_functions_are_its_own_and_the_next_is_timed(
    logger: TimingLogger,
) -> None:
    with pytest.raises(TypeError, match="no_such_option"):
        begin(timing_logger=logger, no_such_option=1)
    assert are_torchs_own()
    assert type(begin(timing_logger=logger)) is TimedProcessGroup
    assert not are_torchs_own()


def test_a_second_one_is_torchs_own_error_and_the_first_stays_timed(logger: TimingLogger) -> None:
    world = begin(timing_logger=logger)
    with pytest.raises(ValueError, match="twice"):
        begin(timing_logger=logger)
    assert dist.group.WORLD is world
    assert type(dist.new_group([0])) is TimedProcessGroup


def test_with_a_logger_that_is_off_the_world_is_torchs_own() -> None:
    off = TimingLogger(0, None, enabled=False)
    assert type(begin(timing_logger=off)) is dist.ProcessGroup
    assert are_torchs_own()


def test_a_world_that_torch_makes_after_a_timed_one_is_not_timed(logger: TimingLogger) -> None:
    begin(timing_logger=logger)
    dist.destroy_process_group()
    assert type(begin(dist.init_process_group)) is dist.ProcessGroup
    assert are_torchs_own()


def test_only_groups_for_which_there_is_a_logger_that_is_on_are_timed(logger: TimingLogger) -> None:
    loggers = [logger, None, TimingLogger(0, None, enabled=False), logger]
    time_all_groups(lambda group: loggers.pop(0))
    begin(dist.init_process_group)
    groups = [dist.group.WORLD, *(dist.new_group([0]) for _ in range(3))]
    assert [isinstance(group, TimedProcessGroup) for group in groups] == [True, False, False, True]


def test_a_logger_of_new_groups_waits_for_their_operations_before_it_is_closed(
    logger: TimingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[TimingLogger] = []
    monkeypatch.setattr(initialization, "finish_with", waits.append)
    begin(timing_logger=logger)
    assert waits == [logger]
    dist.destroy_process_group()
    time_all_groups(lambda group: logger)
    begin(dist.init_process_group)
    assert waits == [logger, logger]


def test_durations_that_this_torch_cannot_be_told_to_measure_are_refused_with_the_way_out(
    logger: TimingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(initialization, "CAN_BE_TOLD", False)
    is_on = [False]
    monkeypatch.setattr(initialization, "switched_on", lambda: is_on[0])
    with pytest.raises(ConfigurationError, match=r"needs torch 2\.13 or later.*TORCH_NCCL_ENABLE_TIMING=1"):
        begin(timing_logger=logger, backend_durations=True)
    assert not dist.is_initialized()
    is_on[0] = True
    assert type(begin(timing_logger=logger, backend_durations=True)) is TimedProcessGroup
