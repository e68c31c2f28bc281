"""Any number of ranks under torchrun: every operation of torch.distributed, over timed or untimed groups.

Arguments: ``timed``, ``untimed``, or ``both`` one after the other; and the parts to do. The untimed run is
torch's own, and shows what must not change. A row finds its case by its label, so nothing waits for rows.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from _names import LACKING, all_gather_single, reduce_scatter_single
from torch.distributed.device_mesh import init_device_mesh

import allreduce_instrumentation
from allreduce_instrumentation.torch_distributed import TimedProcessGroup
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink

WAYS = ("untimed", "timed") if sys.argv[1] == "both" else (sys.argv[1],)
ENTRIES = 5

Made = tuple[Any, Any]
"""The work of a call, and what it fills."""

torch.set_num_threads(1)
sink = MemorySink()
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
right, left = (rank + 1) % size, (rank - 1) % size
logger: TimingLogger
WORLD: Any


def mine(entries: int = ENTRIES, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.arange(entries) + 10 * rank).to(dtype)


def empty(entries: int = ENTRIES) -> torch.Tensor:
    return torch.zeros(entries)


def pieces(entries: int = ENTRIES) -> list[torch.Tensor]:
    return [torch.zeros(entries) for _ in range(size)]


def as_lists(found: Any) -> Any:
    if isinstance(found, torch.Tensor):
        return torch.view_as_real(found).tolist() if found.is_complex() else found.tolist()
    return [as_lists(each) for each in found] if isinstance(found, (list, tuple)) else found


# -- collectives ---------------------------------------------------------------------------------------


def in_place(name: str, *values: Any, dtype: torch.dtype = torch.float32, **arguments: Any) -> Any:
    def call(async_op: bool) -> Made:
        tensor = mine(dtype=dtype)
        return getattr(dist, name)(tensor, *values, async_op=async_op, **arguments), tensor

    return call


def gathered_in_one(name: str) -> Any:
    def call(async_op: bool) -> Made:
        into = empty(size * ENTRIES)
        return getattr(dist, name)(into, mine(), async_op=async_op), into

    return call


def reduced_in_one(name: str) -> Any:
    def call(async_op: bool) -> Made:
        into = empty()
        return getattr(dist, name)(into, mine(size * ENTRIES), async_op=async_op), into

    return call


def all_gather(async_op: bool) -> Made:
    into = pieces()
    return dist.all_gather(into, mine(), async_op=async_op), into


def all_gather_coalesced(async_op: bool) -> Made:
    into = [[empty(), empty(3)] for _ in range(size)]
    return dist.all_gather_coalesced(into, [mine(), mine(3)], async_op=async_op), into


def reduce_scatter(async_op: bool) -> Made:
    into = empty()
    given = list(mine(size * ENTRIES).chunk(size))
    return dist.reduce_scatter(into, given, async_op=async_op), into


def gather(async_op: bool) -> Made:
    into = pieces() if rank == 0 else None
    return dist.gather(mine(), into, dst=0, async_op=async_op), into


def scatter(async_op: bool) -> Made:
    into = empty()
    given = list(mine(size * ENTRIES).chunk(size)) if rank == 1 else None
    return dist.scatter(into, given, src=1, async_op=async_op), into


def all_to_all(async_op: bool) -> Made:
    into = pieces()
    return dist.all_to_all(into, list(mine(size * ENTRIES).chunk(size)), async_op=async_op), into


def all_to_all_single(async_op: bool) -> Made:
    into = empty(size * ENTRIES)
    return dist.all_to_all_single(into, mine(size * ENTRIES), async_op=async_op), into


def all_to_all_of_unequal_pieces(async_op: bool) -> Made:
    """Rank i gets i + 1 entries from everybody."""
    into = empty((rank + 1) * size)
    sent = [each + 1 for each in range(size)]
    work = dist.all_to_all_single(into, mine(sum(sent)), [rank + 1] * size, sent, async_op=async_op)
    return work, into


def all_reduce_coalesced(async_op: bool) -> Made:
    tensors = [mine(), mine(3)]
    return dist.all_reduce_coalesced(tensors, async_op=async_op), tensors


def together(call: Callable[[torch.Tensor, torch.Tensor], Any], into: int, given: int) -> Any:
    """Two calls in a coalescing manager, the second with twice the entries."""

    def both(async_op: bool) -> Made:
        outputs = [empty(into), empty(2 * into)]
        inputs = [mine(given), mine(2 * given)]
        with dist._coalescing_manager(async_ops=async_op) as manager:
            for output, sent in zip(outputs, inputs, strict=True):
                call(output, sent)
        return (manager if async_op else None), [outputs, inputs]

    return both


COLLECTIVES: dict[str, Callable[[bool], Made]] = {
    "all_reduce": in_place("all_reduce"),
    "all_reduce max": in_place("all_reduce", dist.ReduceOp.MAX, dtype=torch.int64),
    "all_reduce complex": in_place("all_reduce", dtype=torch.complex64),
    "all_reduce half": in_place("all_reduce", dtype=torch.float16),
    "broadcast": in_place("broadcast", 1),
    "broadcast group_src": in_place("broadcast", group_src=0),
    "reduce": in_place("reduce", 1),
    "all_gather": all_gather,
    "all_gather_coalesced": all_gather_coalesced,
    **{n: gathered_in_one(n) for n in ("all_gather_into_tensor", "all_gather_single", "_all_gather_base")},
    "reduce_scatter": reduce_scatter,
    **{
        n: reduced_in_one(n)
        for n in ("reduce_scatter_tensor", "reduce_scatter_single", "_reduce_scatter_base")
    },
    "gather": gather,
    "scatter": scatter,
    "all_to_all": all_to_all,
    "all_to_all_single": all_to_all_single,
    "all_to_all_single unequal": all_to_all_of_unequal_pieces,
    "barrier": lambda async_op: (dist.barrier(async_op=async_op), None),
    "all_reduce_coalesced": all_reduce_coalesced,
    "together all_reduce": together(lambda output, sent: dist.all_reduce(sent), 1, ENTRIES),
    "together all_gather": together(all_gather_single, size * ENTRIES, ENTRIES),
    "together reduce_scatter": together(reduce_scatter_single, ENTRIES, size * ENTRIES),
}


def collectives() -> dict[str, Any]:
    """What each fills, called to wait and in the background; or its error."""
    found = {}
    for name, call in COLLECTIVES.items():
        for kind in () if name in LACKING else ("sync", "async"):
            with logger.label(f"{name}, {kind}"):
                try:
                    work, into = call(kind == "async")
                    if work is not None:
                        work.wait()
                    found[f"{name}, {kind}"] = as_lists(into)
                except Exception as error:
                    found[f"{name}, {kind}"] = f"{type(error).__name__}: {error}"
    return found


# -- objects, messages -----------------------------------------------------------------------------------


def all_gather_object() -> Any:
    everyone: list[Any] = [None] * size
    dist.all_gather_object(everyone, {"rank": rank})
    return everyone


def gather_object() -> Any:
    into: Any = [None] * size if rank == 0 else None
    dist.gather_object(f"of {rank}", into, dst=0)
    return into


def broadcast_object_list() -> Any:
    objects = [rank, "text"] if rank == 1 else [None, None]
    dist.broadcast_object_list(objects, src=1)
    return objects


def scatter_object_list() -> Any:
    into: list[Any] = [None]
    dist.scatter_object_list(into, list(range(size)) if rank == 0 else None, src=0)
    return into


def object_to_the_right() -> Any:
    into: list[Any] = [None]
    if rank == 0:
        dist.send_object_list(["an object"], dst=1)
    elif rank == 1:
        dist.recv_object_list(into, src=0)
    return into


OBJECTS: dict[str, Callable[[], Any]] = {
    "all_gather_object": all_gather_object,
    "gather_object": gather_object,
    "broadcast_object_list": broadcast_object_list,
    "scatter_object_list": scatter_object_list,
    "object message": object_to_the_right,
    "monitored_barrier": lambda: dist.monitored_barrier(timeout=timedelta(seconds=30)),
}


def messages() -> dict[str, Any]:
    """Rank 0 sends three to rank 1, one of them in the background, and gets one; others look on."""
    tensors = [empty(n) for n in (1, 2, 3)]
    if rank == 0:
        dist.send(mine(1), dst=1)
        dist.isend(mine(2), dst=1, tag=4).wait()
        dist.recv(tensors[2], src=1)
        dist.send(mine(4), dst=1)
    elif rank == 1:
        dist.recv(tensors[0], src=0)
        dist.irecv(tensors[1], src=0, tag=4).wait()
        dist.send(mine(3), dst=0)
        sender = dist.recv(empty(4))
        return {"filled": as_lists(tensors), "sender": sender}
    return {"filled": as_lists(tensors)}


def messages_in_both_directions() -> Any:
    into = empty()
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, mine(), right), dist.P2POp(dist.irecv, into, left)]
    )
    for work in works:
        work.wait()
    return as_lists(into)


def messages_from_any_source() -> Any:
    """In the background: everybody else sends to rank 0, who does not say from whom it receives."""
    if rank > 0:
        dist.send(mine(), dst=0)
        return None
    senders = []
    for _ in range(size - 1):
        work: Any = dist.irecv(empty())
        work.wait()
        senders.append(work._source_rank())
    return sorted(senders)


def message_by_names() -> Any:
    """By the group's own methods, which take their arguments by name too."""
    into = empty()
    if rank == 0:
        WORLD.send([mine()], dstRank=1, tag=7).wait()
    elif rank == 1:
        WORLD.recv([into], srcRank=0, tag=7).wait()
    return as_lists(into)


MESSAGES: dict[str, Callable[[], Any]] = {
    "messages": messages,
    "batch_isend_irecv": messages_in_both_directions,
    "any source": messages_from_any_source,
    "by names": message_by_names,
}


# -- functional collectives ------------------------------------------------------------------------------


def functional_calls(tensor: torch.Tensor, group: Any = None) -> list[torch.Tensor]:
    group = WORLD if group is None else group
    return [
        functional.all_reduce(tensor, "sum", group),
        functional.all_gather_tensor(tensor, 0, group),
        functional.reduce_scatter_tensor(torch.cat([tensor] * size), "sum", 0, group),
        functional.broadcast(tensor, 1, group),
        functional.all_to_all_single(torch.cat([tensor] * size), None, None, group),
    ]


def reduced_by_name(tensor: torch.Tensor) -> torch.Tensor:
    """What torch.compile turns into a functional collective."""
    dist.all_reduce(tensor)
    return tensor * 2


def compiled(call: Callable[[torch.Tensor], Any], backend: str) -> Any:
    torch._dynamo.reset()
    return as_lists(torch.compile(call, backend=backend, fullgraph=True)(mine()))


FUNCTIONAL: dict[str, Callable[[], Any]] = {
    "functional": lambda: as_lists([each + 0 for each in functional_calls(mine())]),
    "functional coalesced": lambda: as_lists(
        [each + 0 for each in functional.all_reduce_coalesced([mine(), mine(3)], "sum", WORLD)]
    ),
}
COMPILED: dict[str, Callable[[], Any]] = {
    "functional, aot_eager": lambda: compiled(functional_calls, "aot_eager"),
    "all_reduce, eager": lambda: compiled(reduced_by_name, "eager"),
}


# -- further groups --------------------------------------------------------------------------------------


def reduced_over(name: str, group: Any) -> Any:
    if group is None or group == dist.GroupMember.NON_GROUP_MEMBER:
        return None
    with logger.label(f"group {name}"):
        tensor = mine()
        dist.all_reduce(tensor, group=group)
    return as_lists(tensor)


def split_in_two() -> Any:
    """Where the backend cannot, its error."""
    half = [list(range(size // 2)), list(range(size // 2, size))]
    return dist.split_group(WORLD, half, group_desc="half")


GROUPS: dict[str, Callable[[], Any]] = {
    "all": lambda: dist.new_group(group_desc="everybody"),
    "the last": lambda: dist.new_group([size - 1]),
    "without the first": lambda: dist.new_group(list(range(1, size))),
    "backwards": lambda: dist.new_group(list(range(size))[::-1]),
    "local": lambda: dist.new_group([rank], use_local_synchronization=True),
    "subgroups": lambda: dist.new_subgroups(1)[0],
    "enumerated": lambda: dist.new_subgroups_by_enumeration([list(range(size))])[0],
    "split": split_in_two,
}


def groups() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, make in GROUPS.items():
        try:
            group = make()
            found[name] = [reduced_over(name, group), facts_of(group)]
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    if size == 4:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        for dimension in ("dp", "tp"):
            group = mesh.get_group(dimension)
            found[f"mesh {dimension}"] = [reduced_over(f"mesh {dimension}", group), facts_of(group)]
        flat = mesh["dp", "tp"]._flatten("both").get_group()
        found["mesh both"] = [reduced_over("mesh both", flat), facts_of(flat)]
    return found


def facts_of(group: Any) -> Any:
    """What torch tells of a group."""
    if not isinstance(group, dist.ProcessGroup):
        return str(group)
    return {
        "backend": dist.get_backend(group),
        "config": dist.get_backend_config(group),
        "rank": [dist.get_rank(group), group.rank()],
        "size": [dist.get_world_size(group), group.size()],
        "ranks": dist.get_process_group_ranks(group),
        "global": [dist.get_global_rank(group, each) for each in range(group.size())],
        "names": [group.group_name, group.group_desc, group.name(), group._get_backend_name()],
        "devices": sorted(str(device) for device in group._device_types),
        "bound": str(group.bound_device_id),
        "backend of the CPU": type(group._get_backend(torch.device("cpu"))).__name__,
        "store": _stores_and_tells(group),
        "count": dist.get_pg_count(),
        "by name": dist.distributed_c10d._resolve_process_group(group.group_name) is group,
        "registered": group in dist.distributed_c10d._world.pg_map,
        "tag": dist.distributed_c10d._get_group_tag(group),
    }


def _stores_and_tells(group: Any) -> str:
    if not hasattr(dist.ProcessGroup, "get_group_store"):  # in torch 2.8
        return "kept"
    store = group.get_group_store()
    store.set(f"of {rank}", "kept")
    return str(store.get(f"of {rank}"))


# -- iterations ------------------------------------------------------------------------------------------


def sampled() -> list[Any]:
    """Calls of sizes of their own in four iterations, of which the first and the third are recorded."""
    pair = dist.new_group(group_desc="pair")
    entries, sender = 0, []
    for iteration in range(4):
        logger.set_current_iteration(iteration)
        logger.set_current_epoch(iteration // 2)
        with logger.label("sampled"):
            for group in (WORLD, pair, pair)[: 2 + iteration % 2]:
                entries += 1
                dist.all_reduce(mine(entries), group=group)
                dist.broadcast(mine(entries), 0, group=group, async_op=True).wait()
                dist.reduce_scatter_tensor(empty(entries), mine(size * entries), group=group)
                dist.barrier(group)
            with dist._coalescing_manager():
                dist.all_reduce(mine(1))
                dist.all_reduce(mine(2))
            for made in functional_calls(mine()):
                made + 0  # waits
            dist.monitored_barrier()
            if rank == 0:
                dist.send(mine(1), dst=1)
                dist.send(mine(2), dst=1)
            elif rank == 1:
                dist.recv(empty(1), src=0)
                sender.append(dist.recv(empty(2)))  # from whom it is, the message tells
    logger.set_current_iteration(4)
    return sender


# -- everything ------------------------------------------------------------------------------------------


def columns(record: Record) -> list[Any]:
    return [
        record.operation, record.message_size_bytes, record.group, record.group_size, record.seq,
        record.peer, record.status, record.iteration, record.epoch, record.thread,
    ]  # fmt: skip


def tried(calls: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    found = {}
    for name, call in calls.items():
        with logger.label(name):
            try:
                found[name] = call()
            except Exception as error:
                found[name] = f"{type(error).__name__}: {error}"
    return found


def rows() -> dict[str, list[Any]]:
    """Of each label, in the order of their writing."""
    logger.flush()
    found: dict[str, list[Any]] = {}
    for record in sink.records:
        found.setdefault(record.layer_name, []).append(columns(record))
    return found


def durations() -> Sequence[float]:
    return [(r.end_ns or 0) - r.start_ns for r in sink.records]


PARTS: dict[str, Callable[[], Any]] = {
    "facts": lambda: facts_of(WORLD),
    "collectives": collectives,
    "objects": lambda: tried(OBJECTS),
    "messages": lambda: tried(MESSAGES),
    "functional": lambda: tried(FUNCTIONAL),
    "compiled": lambda: tried(COMPILED),
    "groups": groups,
    "sampled": sampled,
}


def begin(timed: bool, store: Any) -> Any:
    """Make the default group, over ``store`` or as torchrun says; return the store of it."""
    global WORLD, logger
    arguments: dict[str, Any] = {"timeout": timedelta(seconds=60)}
    if store is not None:
        arguments |= {"store": dist.PrefixStore("another", store), "rank": rank, "world_size": size}
    if timed:
        logger = TimingLogger(rank, None, sinks=[sink], record_every_n_steps=2)
        allreduce_instrumentation.init_process_group("gloo", timing_logger=logger, **arguments)
    else:
        logger = TimingLogger(0, None, enabled=False)
        dist.init_process_group("gloo", **arguments)
    WORLD = dist.group.WORLD
    return dist.distributed_c10d._get_default_store()


def all_parts() -> dict[str, Any]:
    results: dict[str, Any] = {
        "is timed": isinstance(WORLD, TimedProcessGroup),
        "is a group": isinstance(WORLD, dist.ProcessGroup),
        **{name: PARTS[name]() for name in sys.argv[2:] or PARTS},
    }
    return {**results, "rows": rows(), "shortest": min(durations(), default=0)}


found: dict[str, Any] = {}
store = None
for way in WAYS:
    if store is not None:
        dist.barrier()  # a rank that closes its connections would fail those that still use them
        dist.destroy_process_group()
    store = begin(way == "timed", store)
    found[way] = all_parts()
everyone: list[Any] = [None] * size
dist.all_gather_object(everyone, found if len(WAYS) > 1 else found[WAYS[0]])
if rank == 0:
    print("\nRESULTS " + json.dumps(everyone), flush=True)
dist.destroy_process_group()
logger.close()
sys.stdout.flush()
os._exit(0)  # on a busy machine torch's debug mode aborts one exit in twenty, without timing as well
