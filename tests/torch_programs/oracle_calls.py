"""What callers of a group see: results, errors, works, futures, attributes; two ranks."""

from __future__ import annotations

import gc
import pickle
import re
import threading
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

CPU = torch.device("cpu")


def rank() -> int:
    return dist.get_rank()


def world() -> Any:
    return dist.group.WORLD


def ones(entries: int = 4) -> torch.Tensor:
    return torch.full((entries,), float(rank() + 1))


def raised(call: Callable[[], Any]) -> str:
    """What ``call`` raises, without what differs from run to run; or what it returns."""
    try:
        return f"no error: {call()}"
    except Exception as error:
        text = re.sub(r"0x\w+|\[rank\d\]:\[\w+ [\d:.]+ \d+|127\.0\.0\.1\S*|\d+ms", "", str(error))
        text = re.sub(r"timing_group\.Timed\w*Work", "torch._C._distributed_c10d.Work", text)
        text = text.replace("torch._C._distributed_c10d.ProcessGroup", "ProcessGroup")
        return f"{type(error).__name__}: {text.replace('TimedProcessGroup', 'ProcessGroup')}"[:300]


def every_reduction() -> list[Any]:
    found: list[Any] = []
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.uint8):
        for op in ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"):
            tensor = (ones() + torch.arange(4)).to(dtype)
            try:
                dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op))
            except RuntimeError as error:
                found.append(str(error)[:80])
            else:
                found.append([str(dtype), op, tensor.tolist()])
    return found


def odd_tensors() -> list[Any]:
    """Empty, not contiguous, of zero dimensions, complex, boolean, made for inference."""
    strided = torch.arange(16.0).reshape(4, 4).t()[:, ::2]
    with torch.inference_mode():
        for_inference = ones()
    values = torch.tensor([True, rank() == 0])
    imaginary = torch.ones(2, dtype=torch.complex64) * 1j
    given = [torch.empty(0), strided, torch.tensor(2.0), imaginary, for_inference]
    for tensor in given:
        dist.all_reduce(tensor)
    dist.all_reduce(values, op=dist.ReduceOp.MIN)
    return [str(tensor.tolist()) for tensor in (*given, values)]


def sparse_tensor() -> list[Any]:
    tensor = torch.eye(3).to_sparse() * (rank() + 1)
    dist.all_reduce(tensor)
    return tensor.to_dense().tolist()


def wrong_arguments() -> list[str]:
    group = world()
    calls: list[Callable[[], Any]] = [
        lambda: dist.broadcast(ones(), 17),
        lambda: group.broadcast([ones()], -1),
        lambda: group.allreduce([]),
        lambda: group.allreduce([ones(), ones(3)]),
        lambda: group.allgather([], [ones()]),
        lambda: group.reduce_scatter([], []),
        lambda: group.allreduce(),
        lambda: group.barrier("now"),
        lambda: group.all_reduce([ones()]),
        lambda: dist.all_reduce([1.0]),
        lambda: dist.reduce(ones(), 99),
        lambda: dist.send(ones(), rank()),
        lambda: dist.all_to_all_single(torch.empty(3), ones(), [1, 1], [2, 2]),
        lambda: dist.all_reduce(torch.ones(3, dtype=torch.int8), op=dist.ReduceOp.PREMUL_SUM),
        lambda: dist.batch_isend_irecv([]),
        lambda: dist.new_group([0, 7]),
    ]
    return [raised(call) for call in calls]


def forms_of_a_call() -> list[bool]:
    """Tensors and lists of them, options and words, as the methods of a group take them."""
    group = world()
    every = [torch.empty(4), torch.empty(4)]
    works = [
        group.allreduce(ones()),
        group.allreduce(ones(), dist.ReduceOp.MAX),
        group.allreduce([ones()], op=dist.ReduceOp.MAX, timeout=timedelta(seconds=20)),
        group.broadcast(ones(), root=1),
        group.broadcast(ones(), 1),
        group.reduce(ones(), root=1, op=dist.ReduceOp.SUM),
        group.allgather(every, ones()),
        group.allgather(output_tensors=[every], input_tensors=[ones()]),
        group.gather(every if rank() == 0 else [], ones(), root=0),
        group.scatter(torch.empty(4), [ones(), ones()] if rank() == 0 else [], 0),
        group.reduce_scatter(torch.empty(4), [ones(), ones()]),
        group.alltoall(every, [ones(), ones()]),
        group.barrier(timeout=timedelta(seconds=20)),
        group.send([ones()], 1, 3) if rank() == 0 else group.recv([ones()], 0, 3),
        group.send([ones()], dstRank=1, tag=4) if rank() == 0 else group.recv([ones()], srcRank=0, tag=4),
    ]
    return [work.wait() for work in works]


def futures() -> dict[str, Any]:
    tensor = ones()
    work: Any = dist.all_reduce(tensor, async_op=True)
    future = work.get_future()
    summed = future.then(lambda done: done.value()[0].sum().item())
    told: list[bool] = []
    future.add_done_callback(lambda done: told.append(work.get_future().done()))
    both = torch.futures.collect_all([work.get_future(), summed])
    both.wait()
    lists = [torch.empty(4), torch.empty(4)]
    gathered: Any = dist.all_gather(lists, ones(), async_op=True)
    work.wait()
    return {
        "value is the tensor": future.value()[0].data_ptr() == tensor.data_ptr(),
        "then": summed.value(),
        "asked for again in a callback": told,
        "of several tensors": [part.tolist() for part in gathered.get_future().wait()],
        "of a message": raised(lambda: message().get_future()),
    }


def message() -> Any:
    work: Any = dist.isend(ones(), 1) if rank() == 0 else dist.irecv(ones(), 0)
    work.wait()
    return work


def questions_to_a_work() -> dict[str, Any]:
    work: Any = dist.all_reduce(ones(), async_op=True)
    waited = work.wait(timedelta(seconds=20))
    names = (
        "is_completed", "is_success", "exception", "result", "source_rank", "synchronize", "_get_op_type",
        "get_future_result", "_get_duration", "block_current_stream", "abort_no_such", "_source_rank",
    )  # fmt: skip
    answers = {name: raised(lambda name=name: getattr(work, name)()) for name in names}
    return {"wait": waited, **answers, "a work": isinstance(work, dist.Work)}


def messages() -> dict[str, Any]:
    """Any source, tags out of order, what recv returns."""
    if rank() == 0:
        works: list[Any] = [dist.isend(torch.full((2,), float(tag)), 1, tag=tag) for tag in (1, 2, 3, 4)]
        return {"sent": [work.wait() for work in works]}
    tensors = {tag: torch.empty(2) for tag in (3, 1, 2)}
    returned = [dist.recv(tensor, 0, tag=tag) for tag, tensor in tensors.items()]
    work = world().recv_anysource([torch.empty(2)], 4)
    work.wait()
    received = [tensor.tolist() for tensor in tensors.values()]
    return {"returned": returned, "received": received, "any": work._source_rank()}


def recv_from_anybody() -> Any:
    return dist.recv(torch.empty(4)) if rank() == 0 else dist.send(ones(), 0)


def many_in_flight() -> bool:
    works: list[Any] = [dist.all_reduce(torch.full((9,), float(n)), async_op=True) for n in range(100)]
    return all(work.wait() for work in reversed(works))


def waited_for_in_another_thread() -> list[Any]:
    tensor = ones()
    work: Any = dist.all_reduce(tensor, async_op=True)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work.wait()))
    thread.start()
    thread.join()
    return [*found, tensor.tolist()]


def a_barrier_comes_after_what_was_issued_before() -> bool:
    works: list[Any] = [dist.all_reduce(ones(), async_op=True) for _ in range(20)]
    dist.barrier()
    return all(work.wait() for work in works)


def a_wait_that_gives_up() -> list[Any]:
    """The work goes on, and is there for the next wait."""
    store = c10d._get_default_store()
    tensor = ones()
    if rank() == 1:
        store.get("gave up")
        dist.all_reduce(tensor)
        return [tensor.tolist()]
    work: Any = dist.all_reduce(tensor, async_op=True)
    first = raised(lambda: work.wait(timedelta(milliseconds=100)))
    store.set("gave up", "1")
    return [first, work.wait(), tensor.tolist()]


def a_work_outlives_its_group() -> list[bool]:
    group: Any = dist.new_group()
    seen = weakref.ref(group)
    work: Any = dist.all_reduce(ones(), group=group, async_op=True)
    dist.destroy_process_group(group)
    del group
    gc.collect()
    waited = work.wait()
    return [waited, seen() is None]


def sequence_numbers() -> list[int]:
    before = world()._get_sequence_number_for_group()
    dist.all_reduce(ones())
    message()
    return [world()._get_sequence_number_for_group() - before]


def attributes() -> dict[str, Any]:
    group = world()
    options = group._get_backend(CPU).options
    c10d._set_pg_timeout(timedelta(seconds=33), group)
    group.get_group_store().set(f"key {rank()}", "kept")
    return {
        "rank and size": [group.rank(), group.size(), dist.get_rank(group), dist.get_world_size(group)],
        "names": [group.name(), group.group_name, group.group_desc, group._get_backend_name()],
        "backend": [dist.get_backend(group), str(dist.get_backend_config(group)), str(options._timeout)],
        "devices": sorted(device.type for device in group._device_types),
        "device": group.bound_device_id,
        "store": group.get_group_store().get(f"key {rank()}").decode(),
        "found by name": c10d._resolve_process_group(group.group_name) is group,
        "boxed and back": dist.ProcessGroup.unbox(group.boxed()) is group,
        "a key": group in {group},
        "ranks": [dist.get_process_group_ranks(group), dist.get_global_rank(group, 1)],
        "tag": c10d._get_group_tag(group),
        "pickled": raised(lambda: pickle.dumps(group))[:9],
        "hooks": group._has_hooks(),
        "is a group": isinstance(group, dist.ProcessGroup),
    }


def groups_without_this_rank() -> list[Any]:
    group: Any = dist.new_group([0], group_desc="first alone")
    tensor = ones()
    dist.all_reduce(tensor, group=group)  # warns where it does nothing
    return [dist.get_rank(group), tensor.tolist(), isinstance(group, dist.ProcessGroup)]


def use_after_shutdown() -> list[str]:
    group: Any = dist.new_group()
    group.shutdown()
    group.abort()
    after = raised(lambda: dist.all_reduce(ones(), group=group))
    dist.destroy_process_group(group)
    return [after, raised(lambda: dist.destroy_process_group(group))]


def whoever_does_not_come_to_a_monitored_barrier() -> list[str]:
    group: Any = dist.new_group()  # of no use afterwards
    if rank() == 1:
        return []
    return [raised(lambda: dist.monitored_barrier(group, timeout=timedelta(milliseconds=300)))]


def objects() -> list[Any]:
    everyone: list[Any] = [None, None]
    dist.all_gather_object(everyone, {"rank": rank()})
    collected: Any = [None, None] if rank() == 0 else None
    dist.gather_object((rank(),), collected, 0)
    scattered: list[Any] = [None]
    dist.scatter_object_list(scattered, ["a", "b"] if rank() == 0 else None, 0)
    return [everyone, collected and [list(item) for item in collected], scattered]


CALLS: dict[str, Callable[[], Any]] = {
    "reductions": every_reduction,
    "odd tensors": odd_tensors,
    "a sparse tensor": sparse_tensor,
    "wrong arguments": wrong_arguments,
    "forms of a call": forms_of_a_call,
    "futures": futures,
    "questions to a work": questions_to_a_work,
    "messages": messages,
    "a message from anybody": recv_from_anybody,
    "many in flight": many_in_flight,
    "waiting in another thread": waited_for_in_another_thread,
    "barrier": a_barrier_comes_after_what_was_issued_before,
    "a wait that gives up": a_wait_that_gives_up,
    "a work outlives its group": a_work_outlives_its_group,
    "sequence numbers": sequence_numbers,
    "attributes": attributes,
    "without this rank": groups_without_this_rank,
    "after shutdown": use_after_shutdown,
    "monitored barrier": whoever_does_not_come_to_a_monitored_barrier,
    "objects": objects,
}
