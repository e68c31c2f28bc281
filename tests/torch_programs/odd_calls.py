"""Calls of every odd form over one rank: prints what each raised, and the rows, but for their instants."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as differentiable

from allreduce_instrumentation import init_process_group
from timing_logger import TimingLogger
from timing_logger.sinks.memory import MemorySink


def of_an_unknown_root() -> object:
    options = dist.BroadcastOptions()
    options.rootRank = 9
    return group.broadcast([torch.ones(4)], options)


def through_autograd() -> None:
    values = torch.ones(4, requires_grad=True)
    differentiable.all_reduce(values * 2).sum().backward()


def waited_for_twice() -> None:
    work: Any = dist.all_reduce(torch.ones(2), async_op=True)
    work.wait()
    work.wait()
    assert work.is_completed()
    work.get_future().then(lambda done: done.value()[0] * 2).wait()


def on_another_thread() -> None:
    thread = threading.Thread(target=lambda: dist.all_reduce(torch.ones(2), async_op=True).wait(), name="odd")
    thread.start()
    thread.join()


def with_a_label_that_is_no_text() -> None:
    with logger.label(5):  # type: ignore[arg-type]
        dist.all_reduce(torch.ones(1))


def of_iteration(number: int) -> None:
    logger.set_current_iteration(number)
    dist.all_reduce(torch.ones(1), async_op=True).wait()


TENSORS = [
    torch.empty(0), torch.tensor(3.0), torch.ones(4, 4).t(), torch.ones(8)[::2],
    torch.ones(2, dtype=torch.bool), torch.ones(2, dtype=torch.complex64),
    torch.ones(4, requires_grad=True), torch.ones(4).to_sparse(),
]  # fmt: skip
CALLS: list[Callable[[], object]] = [
    *(lambda tensor=tensor: dist.all_reduce(tensor) for tensor in TENSORS),
    torch.inference_mode()(lambda: dist.all_reduce(torch.ones(3))),
    lambda: dist.broadcast(torch.ones(4), 7),
    of_an_unknown_root,
    lambda: dist.all_gather_into_tensor(torch.ones(3), torch.ones(4)),
    lambda: group.allreduce([3], dist.AllreduceOptions()),
    lambda: group.allreduce([torch.ones(1)], dist.BroadcastOptions()),
    lambda: group.allreduce(torch.ones(1), dist.ReduceOp.SUM),
    through_autograd, waited_for_twice, on_another_thread, with_a_label_that_is_no_text,
    lambda: of_iteration(2**70), lambda: of_iteration(4),
]  # fmt: skip

sink = MemorySink()
logger = TimingLogger(0, log_dir=None, sinks=[sink])
init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1, timing_logger=logger)
group: Any = dist.group.WORLD
raised = []
for call in CALLS:
    try:
        call()
        raised.append("")
    except Exception as error:
        raised.append(f"{type(error).__name__}: {str(error)[:80]}")  # what follows may have addresses
dist.destroy_process_group()
logger.close()
rows = [str(row._replace(start_ns=0, end_ns=0 if row.end_ns else None)) for row in sink.records]
print(json.dumps([raised, sorted(rows)]))
