"""On two ranks: the same calls over a group that C++ times, or Python, as ``TIMING_LOGGER_GROUP`` says.

Every scenario returns what must be the same, whichever it is; the handles alone say which it was.
"""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from _scenarios import RANK
from _timed_group import LOGGER, ME, lasting, new_rows, run_timed
from async_device.process_group import NAME
from torch import Stream, Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from allreduce_instrumentation.torch_distributed import TimedProcessGroup
from timing_logger import TimingLogger
from timing_logger.recording import flusher
from timing_logger.recording.device.devices import devices_in_use
from timing_logger.recording.device.intervals import AT_ONCE
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink

device = torch.asyncdev


def _ones(count: int = 4, at: Any = ME) -> Tensor:
    return torch.ones(count, device=at)


def _told(rows: list[Record]) -> list[list[Any]]:
    """What rows say besides instants; the streams but for the default one by whether there is one."""
    return [
        [
            row.operation, row.message_size_bytes, row.group_size, row.seq, row.peer, row.clock, row.status,
            row.iteration, row.layer_name, row.phase, row.thread,
            row.stream if row.stream.endswith("/0") else bool(row.stream), row.end_ns is not None,
        ]
        for row in rows
    ]  # fmt: skip


CALLS: tuple[Callable[[bool], Any], ...] = (
    lambda on: dist.all_reduce(_ones(), async_op=on),
    lambda on: dist.broadcast(_ones(8), 1, async_op=on),
    lambda on: dist.reduce(_ones(2), 0, async_op=on),
    lambda on: dist.all_gather_into_tensor(_ones(8), _ones(), async_op=on),
    lambda on: dist.reduce_scatter_tensor(_ones(4), _ones(8), async_op=on),
)


def handles() -> list[str]:
    """The modules of the handles on calls in the background; no scenario is to see more of a difference."""
    lasting(0)
    works = [call(True) for call in CALLS]
    kinds = {type(work).__module__ for work in works}
    for work in works:
        work.wait()
    new_rows()
    return sorted(kinds)


def each_call() -> list[Any]:
    for call in CALLS:
        call(False)
        call(True).wait()
    with Stream(device=ME), LOGGER.label(layer_name="fc", phase="train"):
        LOGGER.set_current_iteration(3)
        dist.all_reduce(_ones())
        dist.all_reduce(_ones(), async_op=True).wait()
    LOGGER.set_current_iteration(None)
    return sorted(_told(new_rows()), key=str)  # rows of two streams come in any order


def odd_calls() -> list[Any]:
    """What was raised, and the rows, of several streams."""
    raised = [
        _raised_by(call)
        for call in (_unknown_root, _waited_twice, _dropped, _future_alone, _elsewhere, _thread)
    ]
    return [raised, sorted(_told(new_rows()), key=str)]


def _raised_by(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return ""


def _unknown_root() -> None:
    options = dist.BroadcastOptions()
    options.rootRank = 1
    options.asyncOp = True
    dist.group.WORLD.broadcast([_ones(), _ones()], options)


def _waited_twice() -> None:
    work = dist.all_reduce(_ones(), async_op=True)
    work.wait()
    work.wait()
    work.get_future().wait()


def _dropped() -> None:
    dist.all_reduce(_ones(), async_op=True)
    gc.collect()


def _future_alone() -> None:
    dist.all_reduce(_ones(), async_op=True).get_future().wait()


def _elsewhere() -> None:
    """On a device that is not the current one."""
    dist.all_reduce(_ones(at="asyncdev:2"))
    dist.all_reduce(_ones(at="asyncdev:2"), async_op=True).wait()


def _thread() -> None:
    thread = threading.Thread(target=lambda: dist.all_reduce(_ones(at=ME), async_op=True).wait(), name="odd")
    thread.start()
    thread.join()


def calls_before_a_stream_that_stands_still() -> dict[str, int]:
    """More than it takes marks of."""
    tensor = _ones()
    gate = device.hold()
    for _ in range(260):
        dist.all_reduce(tensor)
    gate.open()
    return dict(Counter(row.status for row in new_rows()))


def more_calls_than_the_ring_has_room_for() -> list[Any]:
    """The counts of a small logger, and whether events were lost by it."""
    look_s, flusher._LOOK_S = flusher._LOOK_S, 3600.0  # else it makes room meanwhile, if the calls take long
    pool = devices_in_use()[0].pool
    small = TimingLogger(RANK, None, sinks=[MemorySink()], maxsize=64, flush_interval=3600.0)
    group = TimedProcessGroup.of_new(dist.group.WORLD.untimed, small, {"asyncdev": NAME})
    in_use = pool.made - len(pool.free)
    options = dist.AllreduceOptions()
    options.asyncOp = False
    tensor = _ones()
    for _ in range(300):
        group.allreduce([tensor], options)
    small.close()
    flusher._LOOK_S = look_s
    gc.collect()
    return [small.stats[:3], pool.made - len(pool.free) <= in_use + AT_ONCE]


def many_threads() -> list[Any]:
    """Each over one rank, in a stream of its own."""
    alone = [dist.new_group([rank]) for rank in range(2)][RANK]
    new_rows()

    def call() -> None:
        with Stream(device=ME):
            tensor = _ones()
            for _ in range(40):
                dist.all_reduce(tensor, group=alone)
                dist.all_reduce(tensor, group=alone, async_op=True).wait()

    threads = [threading.Thread(target=call, name=f"caller {number}") for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = new_rows()
    numbers = sorted(row.seq for row in rows if row.operation != "WAIT" and row.seq is not None)
    told = Counter((row.operation, row.status, row.thread) for row in rows)
    return [sorted([*kind, count] for kind, count in told.items()), numbers == list(range(320))]


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(16, 16) for _ in range(4))).to(ME)


def _steps(model: nn.Module) -> list[Any]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = []
    for number in range(3):
        LOGGER.set_current_iteration(number)
        model(torch.full((2, 16), RANK + 1.0, device=ME)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        rows += new_rows()
    LOGGER.set_current_iteration(None)
    told = _told(rows)
    first = min(row[3] for row in told)
    rows_of_group = [
        [*row[:2], row[3] - first, *row[4:10], row[10] == "MainThread", *row[11:]] for row in told
    ]
    return sorted(rows_of_group, key=str)  # rows of two streams come in any order


def ddp() -> list[Any]:
    return _steps(DistributedDataParallel(_model(), bucket_cap_mb=0.001))


def fsdp2() -> list[Any]:
    model = _model()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    return _steps(model)


# The last one: nothing runs on the device any more.
def failure() -> list[Any]:
    """Calls raise what they do without timing; the rows have no end."""
    tensor = _ones()
    device.fail("an illegal address")
    _raised_by(device.synchronize)  # from here on it has failed
    raised = [_raised_by(partial(dist.all_reduce, tensor, async_op=on)) for on in (False, True)]
    return [raised, [[row.operation, row.status, row.end_ns] for row in new_rows()]]


if __name__ == "__main__":
    run_timed(globals())
