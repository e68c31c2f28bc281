"""On two ranks: calls of a timed group whose backend queues in streams, and what their rows say."""

from __future__ import annotations

import gc
import threading
from typing import Any

import torch
import torch.distributed as dist
from _recordings import mark, ms
from _scenarios import RANK
from _timed_group import LOGGER, ME, lasting, lasting_from_the_wait, new_rows, run_timed
from async_device.process_group import StreamBackend
from torch import Stream, Tensor
from torch.distributed.distributed_c10d import _coalescing_manager

from timing_logger.schema.record import Record

device = torch.asyncdev


def _tensor() -> Tensor:
    """Of 100 bytes."""
    return torch.ones(25, device=ME)


def _numbered(rows: list[Record]) -> list[list[Any]]:
    """Operations, with their numbers counted from the first of them."""
    first = min(row.seq for row in rows if row.seq is not None)
    return [[row.operation, row.status, None if row.seq is None else row.seq - first] for row in rows]


def _streams(side: Stream) -> dict[str, str]:
    """Of each operation since the last call, whether its row names ``side``."""
    names = {f"asyncdev:{RANK}/{side.stream_id}": "side"}
    return {row.operation: names.get(row.stream, row.stream) for row in new_rows()}


def synchronous_calls() -> list[Any]:
    lasting(20)
    tensor = _tensor()
    returned = dist.all_reduce(tensor)
    dist.barrier()
    rows = new_rows()
    group = {(row.group, row.group_size, row.clock) for row in rows}
    sizes = [row.message_size_bytes for row in rows]
    return [returned, _numbered(rows), len(group), sizes, all(ms(row) >= 20 for row in rows)]


def streams_of_rows() -> list[Any]:
    """Of calls that wait, alone and together, and of one in the background that is waited for in another."""
    lasting(0)
    side = Stream(device=ME)
    tensor = _tensor()
    device.synchronize()
    with side:
        dist.all_reduce(tensor)
    alone = _streams(side)
    with side, _coalescing_manager(group=dist.group.WORLD, device=ME):
        dist.all_reduce(tensor)
    together = _streams(side)
    work = dist.all_reduce(tensor, async_op=True)
    with side:
        work.wait()
    return [alone, together, _streams(side)]


def background_call() -> list[Any]:
    """Beside a stream that stands still nobody waits, and rows come when it has got on."""
    lasting(10)
    tensor = _tensor()
    dist.all_reduce(tensor)
    gate = device.hold()
    with lasting_from_the_wait(10):
        work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    work.wait()
    held, flushed = not mark().query(), LOGGER.flush(timeout=0.05)
    gate.open()
    rows = new_rows()
    return [held, flushed, _numbered(rows), all(ms(row) >= 10 for row in rows)]


def call_that_nobody_waits_for() -> list[Any]:
    lasting(0)
    dist.all_reduce(_tensor(), async_op=True)
    gc.collect()
    device.synchronize()
    return [[row.operation, row.status, row.end_ns] for row in new_rows()]


def future_alone() -> list[Any]:
    """Only the future is kept; to take it is no wait."""
    lasting(10)
    future = dist.all_reduce(_tensor(), async_op=True).get_future()
    gc.collect()
    future.wait()
    return [[row.operation, row.clock, row.status, ms(row) >= 10] for row in new_rows()]


def coalesced_calls() -> list[Any]:
    """Three together in the background, then one alone; the work of those together has no future.

    Not all-reduces: these torch makes one call of.
    """
    lasting(10)
    tensors = [_tensor() * (RANK + 1) for _ in range(3)]
    StreamBackend.futures_of_batches = False
    with _coalescing_manager(group=dist.group.WORLD, device=ME, async_ops=True) as together:
        for tensor in tensors:
            dist.broadcast(tensor, 1, async_op=True)
    together.wait()
    StreamBackend.futures_of_batches = True
    dist.all_reduce(tensors[0], async_op=True).wait()
    rows = new_rows()
    return [
        [[row[0], row[2]] for row in _numbered(rows) if row[1] == "ok" and row[0] != "WAIT"],
        len([row for row in rows if row.operation == "WAIT"]),
        all(ms(row) >= 10 for row in rows if row.operation != "WAIT"),
        [tensor[0].item() for tensor in tensors],
    ]


def coalesced_calls_that_wait() -> list[Any]:
    lasting(10)
    tensor = _tensor()
    with _coalescing_manager(group=dist.group.WORLD, device=ME):
        dist.broadcast(tensor, 0)
        dist.broadcast(tensor, 0)
    rows = new_rows()
    return [[row.operation, row.status, ms(row) >= 10] for row in rows]


def host_group() -> list[Any]:
    """gloo, in a process whose device stands still."""
    group = dist.new_group(backend="gloo")
    new_rows()
    gate = device.hold()
    dist.all_reduce(torch.ones(25), group=group)
    work = dist.all_reduce(torch.ones(25), group=group, async_op=True)
    waiter = threading.Thread(target=work.wait, name="waiter")
    waiter.start()
    waiter.join()
    rows = new_rows()
    gate.open()
    return [[row.operation, row.clock, row.stream, row.thread] for row in rows]


# This one comes last: the kernels that are captured never run.
def captured_calls() -> list[Any]:
    """They add nothing to the graph but themselves, are counted, and are no rows."""
    lasting(0)
    tensor = _tensor()
    dist.all_reduce(tensor)
    device.synchronize()
    (before,) = new_rows()
    with device.capture() as tasks:
        dist.all_reduce(tensor)
    captured = new_rows()
    dist.all_reduce(tensor)
    (after,) = new_rows()
    assert before.seq is not None
    assert after.seq is not None
    return [tasks, captured, after.seq - before.seq]


if __name__ == "__main__":
    run_timed(globals())
