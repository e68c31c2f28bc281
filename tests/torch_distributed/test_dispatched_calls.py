"""Calls that torch issues in C++ over groups that exist: a group of one process, of a torch with hooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from allreduce_instrumentation import instrument, uninstrument
from allreduce_instrumentation.torch_distributed import _dispatched_calls
from timing_logger import TimingLogger
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink

pytestmark = pytest.mark.skipif(
    not _dispatched_calls.AVAILABLE, reason=f"torch {torch.__version__} has no hooks: they came with 2.14"
)


@pytest.fixture(autouse=True)
def world() -> Iterator[dist.ProcessGroup]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    uninstrument()
    dist.destroy_process_group()


def rows(logger: TimingLogger, sink: MemorySink) -> list[Record]:
    uninstrument()  # waits for callbacks
    logger.flush()
    return sink.records


def in_cpp(group: Any) -> torch.Tensor:
    """A collective that no method of the group is called for."""
    return functional.wait_tensor(functional.all_reduce(torch.ones(3), "sum", group))


def test_a_functional_collective_is_one_row(world: Any, logger: TimingLogger, sink: MemorySink) -> None:
    instrument(logger)
    assert in_cpp(world).tolist() == [1.0] * 3
    (row,) = rows(logger, sink)
    assert (row.operation, row.message_size_bytes, row.seq, row.status) == ("IALLREDUCE", 12, 0, "ok")
    assert row.end_ns >= row.start_ns


def test_a_call_from_python_is_not_counted_a_second_time(
    world: Any, logger: TimingLogger, sink: MemorySink
) -> None:
    instrument(logger)
    dist.all_reduce(torch.ones(3))
    in_cpp(world)
    dist.all_reduce(torch.ones(3), async_op=True).wait()
    found = [(row.operation, row.seq) for row in rows(logger, sink)]
    assert sorted(found) == [("ALLREDUCE", 0), ("IALLREDUCE", 1), ("IALLREDUCE", 2), ("WAIT", 2)]


def test_a_group_that_is_made_later_is_covered(logger: TimingLogger, sink: MemorySink) -> None:
    instrument(logger)
    in_cpp(dist.new_group([0], group_desc="later"))
    assert [(row.operation, row.group.split()[0]) for row in rows(logger, sink)] == [("IALLREDUCE", "later")]


def test_buckets_of_models_that_nobody_named_have_names_and_waits(
    logger: TimingLogger, sink: MemorySink
) -> None:
    before = DistributedDataParallel(nn.Linear(2, 3))
    instrument(logger)
    before(torch.ones(1, 2)).sum().backward()
    found = [(row.operation, row.layer_name, row.seq) for row in rows(logger, sink)]
    assert found == [("IALLREDUCE", "ddp:weight", 0), ("WAIT", "ddp:weight", 0)]


def test_iterations_that_are_not_recorded_are_counted(world: Any, sink: MemorySink) -> None:
    logger = TimingLogger(0, None, sinks=[sink], record_every_n_steps=2)
    instrument(logger)
    for iteration in range(3):
        logger.set_current_iteration(iteration)
        in_cpp(world)
    assert [(row.iteration, row.seq) for row in rows(logger, sink)] == [(0, 0), (2, 2)]
    logger.close()


def test_a_call_that_is_not_issued_in_the_end_has_an_error_and_no_number(
    world: Any, logger: TimingLogger, sink: MemorySink
) -> None:
    def refuse(_: object) -> None:
        raise KeyError("somebody else's hook, after ours")

    instrument(logger)
    world.register_pre_hook(2**62, refuse)
    with pytest.raises(KeyError):
        in_cpp(world)
    world.unregister_pre_hook(2**62)
    in_cpp(world)
    assert [(row.status, row.seq) for row in rows(logger, sink)] == [("error:RuntimeError", None), ("ok", 0)]


def test_an_error_of_the_timing_does_not_reach_the_call(
    world: Any, logger: TimingLogger, sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(_dispatched_calls, "begin", broken)
    monkeypatch.setattr(_dispatched_calls.DispatchedCalls, "_note", broken)
    instrument(logger)
    assert in_cpp(world).tolist() == [1.0] * 3
    assert rows(logger, sink) == []


def test_hooks_of_somebody_else_are_called_beside_ours_and_stay(
    world: Any, logger: TimingLogger, sink: MemorySink
) -> None:
    theirs: list[str] = []
    world.register_pre_hook(1, lambda call: theirs.append(f"before {call.name.name}"))
    world.register_post_hook(1, lambda call: theirs.append(f"after {call.name.name}"))
    instrument(logger)
    in_cpp(world)
    uninstrument()
    in_cpp(world)
    assert theirs == ["before ALLREDUCE", "after ALLREDUCE"] * 2
    assert len(rows(logger, sink)) == 1
    world.unregister_pre_hook(1)
    world.unregister_post_hook(1)
