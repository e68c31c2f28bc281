"""The short way of a common call gives the rows that the long way gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch_runner import PROGRAMS, run_under_torchrun

from allreduce_instrumentation.torch_distributed import TimedProcessGroup, _timed_group
from allreduce_instrumentation.torch_distributed._timed_group import OVER_ONE_TENSOR
from timing_logger import TimingLogger
from timing_logger.reading import read_timings
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink

pytestmark = pytest.mark.both_groups

OPTIONS = {
    "allreduce": dist.AllreduceOptions, "broadcast": dist.BroadcastOptions, "reduce": dist.ReduceOptions,
    "all_gather_single": c10d.AllgatherOptions, "_allgather_base": c10d.AllgatherOptions,
    "reduce_scatter_single": dist.ReduceScatterOptions, "_reduce_scatter_base": dist.ReduceScatterOptions,
}  # fmt: skip

NAMES = [name for name in OVER_ONE_TENSOR if hasattr(dist.ProcessGroup, name)]


@pytest.fixture
def group(logger: TimingLogger) -> Iterator[TimedProcessGroup]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        world: Any = dist.group.WORLD
        yield TimedProcessGroup(world, logger, {"cpu": "gloo"})
    finally:
        dist.destroy_process_group()


def arguments(name: str, size: int, *, goes_on: bool = False) -> tuple[list[Any], Any]:
    """What torch's own functions give, and the options of a call that blocks, or goes on."""
    options: Any = OPTIONS[name]()
    options.asyncOp = goes_on
    if name in ("allreduce", "broadcast", "reduce"):
        return [[torch.ones(size)]], options
    return [torch.zeros(size), torch.ones(size)], options


@pytest.mark.parametrize("name", NAMES)
def test_a_call_in_the_form_of_torchs_functions_is_the_row_that_any_other_form_is(
    name: str, group: TimedProcessGroup, logger: TimingLogger, sink: MemorySink
) -> None:
    tensors, options = arguments(name, 3)
    method = getattr(group, name)
    with logger.label("layer1", "dense"):
        method(*tensors, options)
        method(*tensors, opts=options)
    logger.close()
    short, long = sink.records
    assert short.message_size_bytes == 12
    assert (short.seq, long.seq) == (0, 1)
    assert _known_before(short) == _known_before(long)


@pytest.mark.parametrize("name", NAMES)
def test_one_in_the_background_is_the_rows_that_any_other_form_is(
    name: str, group: TimedProcessGroup, logger: TimingLogger, sink: MemorySink
) -> None:
    tensors, options = arguments(name, 3, goes_on=True)
    method = getattr(group, name)
    with logger.label("layer1", "dense"):
        assert method(*tensors, options).wait()
        assert method(*tensors, opts=options).wait()
    logger.close()
    rows = sorted(sink.records, key=lambda row: (row.seq, row.operation))
    assert [(row.seq, row.operation[0]) for row in rows] == [(0, "I"), (0, "W"), (1, "I"), (1, "W")]
    assert rows[0].message_size_bytes == 12
    assert [_known_before(row) for row in rows[:2]] == [_known_before(row) for row in rows[2:]]


@pytest.mark.parametrize("goes_on", [False, True], ids=["blocks", "goes on"])
@pytest.mark.parametrize("name", NAMES)
def test_a_call_in_the_form_of_torchs_functions_goes_the_short_way(
    name: str, goes_on: bool, group: TimedProcessGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_timed_group, "issue", None)
    monkeypatch.setattr(_timed_group, "issue", None)
    tensors, options = arguments(name, 3, goes_on=goes_on)
    getattr(group, name)(*tensors, options)
    with pytest.raises(TypeError):
        getattr(group, name)(*tensors, opts=options)


@pytest.mark.parametrize("tensors", [[torch.ones(3), torch.ones(5)], [], torch.ones(3).to_sparse()])
def test_what_is_not_one_dense_tensor_takes_the_long_way(
    tensors: Any, group: TimedProcessGroup, logger: TimingLogger, sink: MemorySink
) -> None:
    _, options = arguments("allreduce", 1)
    group.untimed.allreduce([torch.ones(1)], options)
    errors = []
    for one in (group.untimed, group):
        try:
            one.allreduce(tensors, options).wait()
        except Exception as error:
            errors.append((type(error), str(error)))
    logger.close()
    assert len(errors) in (0, 2)
    assert len(set(errors)) <= 1
    assert [row.operation for row in sink.records] == ["ALLREDUCE"]


@pytest.mark.slow("thousands of operations at once; rows and waits of few are quick")
def test_of_more_operations_than_can_be_listed_each_has_one_row_and_one_wait(tmp_path: Path) -> None:
    job = run_under_torchrun(2, PROGRAMS / "many_operations.py", str(tmp_path))
    assert job.returncode == 0, job.stderr
    rows = read_timings(tmp_path)
    for rank in (0, 1):
        for operation in ("IALLREDUCE", "WAIT"):
            chosen = rows[(rows["rank"] == rank) & (rows.operation == operation)]
            assert sorted(chosen.seq) == list(range(1500))
            assert set(chosen.status) == {"ok"}


def test_where_no_name_has_room_any_more_calls_have_their_rows(
    logger: TimingLogger, sink: MemorySink
) -> None:
    for number in range(17_000):
        logger.record_timing("STEP", 1.0, f"layer {number}")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        world: Any = dist.group.WORLD
        group = TimedProcessGroup(world, logger, {"cpu": "gloo"})
        tensors, options = arguments("allreduce", 3)
        group.allreduce(*tensors, options)
        group.timing.ddp.tell([("ddp:a name of its own", 3)])
    finally:
        dist.destroy_process_group()
    logger.close()
    assert [row.operation for row in sink.records[17_000:]] == ["ALLREDUCE"]


def _known_before(row: Record) -> Record:
    return row._replace(start_ns=0, end_ns=0, seq=0)
