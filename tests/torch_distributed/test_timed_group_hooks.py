"""What torch's newer versions attach to groups, and timed groups: hooks, the flight recorder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from allreduce_instrumentation import init_process_group
from allreduce_instrumentation.torch_distributed import TimedProcessGroup
from allreduce_instrumentation.torch_distributed._dispatched_calls import AVAILABLE as HAS_HOOKS
from allreduce_instrumentation.torch_distributed.initialization import leave_new_groups_untimed
from timing_logger import TimingLogger
from timing_logger.sinks.memory import MemorySink

pytestmark = pytest.mark.both_groups

HAS_RECORDER_HOOKS = hasattr(c10d, "_maybe_attach_flight_recorder")


@pytest.fixture
def sink() -> MemorySink:
    return MemorySink()


@pytest.fixture
def logger(sink: MemorySink) -> Iterator[TimingLogger]:
    found = TimingLogger(0, None, sinks=[sink])
    yield found
    found.close()


@pytest.fixture
def world(logger: TimingLogger) -> Iterator[TimedProcessGroup]:
    init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1, timing_logger=logger)
    yield dist.group.WORLD
    if dist.is_initialized():
        dist.destroy_process_group()
    leave_new_groups_untimed()


@pytest.mark.skipif(not HAS_HOOKS, reason="this torch has no hooks: they came with 2.14")
def test_a_hook_that_a_program_registers_on_a_timed_group_is_called_until_it_is_taken_away(
    world: TimedProcessGroup,
) -> None:
    called: list[str] = []
    world.register_pre_hook(1, lambda call: called.append(f"before {call.name.name}"))
    world.register_post_hook(1, lambda call: called.append(f"after {call.name.name}"))
    dist.all_reduce(torch.ones(1))
    world.unregister_pre_hook(1)
    world.unregister_post_hook(1)
    dist.all_reduce(torch.ones(1))
    assert called == ["before ALLREDUCE", "after ALLREDUCE"]


@pytest.mark.skipif(not hasattr(dist, "gather_single"), reason="came with torch 2.15")
def test_a_gather_into_one_tensor_has_a_row_like_every_other(
    world: TimedProcessGroup, logger: TimingLogger, sink: MemorySink
) -> None:
    with pytest.raises(RuntimeError, match="does not support gather_single"):  # gloo
        dist.gather_single(torch.ones(25), torch.ones(25), dst=0)
    logger.flush()
    (row,) = sink.records
    assert (row.operation, row.status, row.message_size_bytes, row.peer) == (
        "GATHER", "error:RuntimeError", 100, 0,
    )  # fmt: skip


# -- the flight recorder ---------------------------------------------------------------------------------

of_torch_2_15 = pytest.mark.skipif(not HAS_RECORDER_HOOKS, reason="a hook of all backends since torch 2.15")


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
    """What torch keeps of its flight recorder's hooks by group; it thinks that gloo needs one, too."""
    monkeypatch.setattr(c10d, "_FR_SELF_RECORDING_BACKENDS", set())
    hooks: dict[Any, Any] = c10d._world.pg_flight_recorder_hooks
    return hooks


@of_torch_2_15
def test_the_flight_recorder_of_a_timed_group_goes_with_the_group(
    recorder: dict[Any, Any], world: TimedProcessGroup
) -> None:
    group = dist.new_group([0])
    assert set(map(id, recorder)) == {id(world), id(group)}
    dist.destroy_process_group(group)
    assert set(map(id, recorder)) == {id(world)}


@of_torch_2_15
def test_the_flight_recorder_observes_the_group_that_works_for_one_split_from_a_timed_one(
    recorder: dict[Any, Any], world: TimedProcessGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed: list[Any] = []
    attach = c10d.FlightRecorderHook.attach

    class Noting:
        @staticmethod
        def attach(group: dist.ProcessGroup, *ranks: Any) -> Any:
            observed.append(group)
            return attach(group, *ranks)

    monkeypatch.setattr(c10d, "FlightRecorderHook", Noting)
    part = dist.split_group(world, [[0]])
    assert isinstance(part, TimedProcessGroup)
    assert observed == [part.untimed]
    assert set(map(id, recorder)) == {id(world), id(part)}


@of_torch_2_15
def test_torchs_own_function_is_back_once_groups_are_left_untimed(world: TimedProcessGroup) -> None:
    assert c10d._maybe_attach_flight_recorder.__module__ != c10d.__name__
    leave_new_groups_untimed()
    assert c10d._maybe_attach_flight_recorder.__module__ == c10d.__name__
