"""What ``instrument`` does to a world of one rank: whose rows are where, and what is waited for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch.distributed import distributed_c10d as c10d  # noqa: E402

from allreduce_instrumentation import instrument, uninstrument  # noqa: E402
from allreduce_instrumentation.torch_distributed import TimedProcessGroup, existing_groups  # noqa: E402
from allreduce_instrumentation.torch_distributed.existing_groups import logger_timing  # noqa: E402
from timing_logger import TimingLogger  # noqa: E402
from timing_logger.sinks.memory import MemorySink  # noqa: E402


class OfAProgram(dist.ProcessGroup):
    """A group that is written in Python."""

    def __init__(self) -> None:
        super().__init__(0, 1)

    def allreduce(self, *_: Any) -> Any:
        return None


@pytest.fixture
def world() -> Iterator[dist.ProcessGroup]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    uninstrument()
    dist.destroy_process_group()


def test_a_group_is_timed_by_the_logger_in_force_and_one_that_times_itself_by_its_own(
    world: dist.ProcessGroup, logger: TimingLogger
) -> None:
    other = TimingLogger(0, None, sinks=[MemorySink()])
    timed = TimedProcessGroup(world, other, {"cpu": "gloo"})
    assert (logger_timing(world), logger_timing(timed)) == (None, other)
    instrument(logger)
    assert (logger_timing(world), logger_timing(timed)) == (logger, other)
    uninstrument()
    assert (logger_timing(world), logger_timing(timed)) == (None, other)


def test_a_group_that_torch_does_not_know_is_not_timed(
    world: dist.ProcessGroup, logger: TimingLogger
) -> None:
    instrument(logger)
    assert logger_timing(OfAProgram()) is None


def test_calls_over_a_group_that_is_written_in_python_are_rows(
    world: dist.ProcessGroup, logger: TimingLogger, sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = OfAProgram()
    monkeypatch.setitem(c10d._world.pg_map, group, ("own", None))
    monkeypatch.setattr(existing_groups, "backends_of", lambda _: {"cpu": "gloo"})
    instrument(logger)
    options = dist.AllreduceOptions()
    options.asyncOp = False
    group.allreduce([torch.ones(2)], options)
    logger.flush()
    assert [(row.operation, row.message_size_bytes) for row in sink.records] == [("ALLREDUCE", 8)]


def test_the_logger_waits_for_operations_before_it_is_closed_and_so_does_uninstrument(
    world: dist.ProcessGroup, logger: TimingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[object] = []
    monkeypatch.setattr(existing_groups, "finish_with", waits.append)
    monkeypatch.setattr(existing_groups, "let_end", lambda is_meant: waits.append(is_meant("any operation")))
    instrument(logger)
    assert waits == [logger]
    uninstrument()
    assert waits == [logger, True]


def test_an_untried_torch_is_named_when_groups_are_timed(
    world: dist.ProcessGroup, logger: TimingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[str] = []
    monkeypatch.setattr(existing_groups, "warn_of_an_untried_torch", lambda: named.append("named"))
    instrument(logger)
    assert named == ["named"]
