"""Two ranks under torchrun: what goes wrong over a process group, timed or not, and what its rows say.

Arguments: what is to happen, one of ``SCENES``; ``timed`` or ``untimed``; and a folder for the timing
files. The untimed run is torch's own, and shows which errors must come unchanged.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import re
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

import allreduce_instrumentation
from allreduce_instrumentation.torch_distributed import TimedProcessGroup
from allreduce_instrumentation.torch_distributed._operations import let_end
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink

SCENE, TIMED = sys.argv[1], sys.argv[2] == "timed"
LIMIT_S = 60.0
LATE_LIMIT_S = 10.0  # well below LIMIT_S: meanwhile the other rank may be waiting for this one

torch.set_num_threads(1)
sink = MemorySink()
rank = int(os.environ["RANK"])
folder = sys.argv[3] if len(sys.argv) > 3 else None


store = dist.TCPStore(
    os.environ["MASTER_ADDR"],
    int(os.environ["MASTER_PORT"]),
    is_master=False,
    timeout=timedelta(seconds=LIMIT_S),
)
worlds = 0
if SCENE == "open at exit":
    atexit.register(store.set, "leaving", "told")  # the first hook is the last that runs

logger = TimingLogger(rank, folder, sinks=[sink], record_every_n_steps=2, enabled=TIMED)


def init_world() -> None:
    """Ranks meet under a new name: what an earlier group left in the store must not be found."""
    global worlds
    worlds += 1
    meeting = dist.PrefixStore(f"world {worlds}", store)
    init(store=meeting, rank=rank, world_size=2, timeout=timedelta(seconds=LIMIT_S))


def init(backend: str | None = "gloo", **arguments: Any) -> None:
    if TIMED:
        allreduce_instrumentation.init_process_group(backend, timing_logger=logger, **arguments)
    else:
        dist.init_process_group(backend, **arguments)


def new_group(timeout: timedelta = timedelta(seconds=LIMIT_S), **arguments: Any) -> Any:
    """Nothing in it lasts longer than the job may: torch's own limit for gloo is 30 minutes."""
    return dist.new_group(timeout=timeout, **arguments)


def error_of(call: Callable[[], Any]) -> str:
    """Without ports and addresses, which differ from run to run."""
    try:
        call()
    except Exception as error:
        return re.sub(r"0x[0-9a-f]+|\d+", "#", f"{type(error).__name__}: {error}")
    return ""


def columns(record: Record) -> list[Any]:
    ended = record.end_ns is not None
    return [
        record.operation, record.message_size_bytes, record.group, record.group_size, record.seq,
        record.peer, record.status, record.thread, ended,
    ]  # fmt: skip


def rows() -> dict[str, list[Any]]:
    """Of each label, in the order of their writing."""
    for _ in range(10):  # half a second each, and only if something is open
        let_end(lambda _: True)
    logger.flush()
    found: dict[str, list[Any]] = {}
    for record in sink.records:
        found.setdefault(record.layer_name, []).append(columns(record))
    return found


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError("what was to happen did not")
        time.sleep(0.01)


def tell(name: str) -> None:
    """Let the other rank's :func:`hear` return."""
    store.set(name, "told")


def hear(name: str) -> None:
    store.wait([name], timedelta(seconds=LIMIT_S))


def ones(entries: int = 4, **arguments: Any) -> torch.Tensor:
    return torch.ones(entries, **arguments)


# -- errors that a process survives ----------------------------------------------------------------------


BEFORE: dict[str, Callable[[], Any]] = {
    "no such backend": lambda: init("nonesuch"),
    "not built in": lambda: init("nccl" if not dist.is_nccl_available() else "nonesuch"),
    "wrong timeout": lambda: init(timeout="soon"),
    "two ways to meet": lambda: init(store=dist.HashStore(), init_method="env://", rank=rank, world_size=2),
    "no such method": lambda: init(init_method="nonesuch://"),
    "unknown argument": lambda: init(colour="red"),
}

WRONG: dict[str, Callable[[], Any]] = {
    "no tensor": lambda: dist.all_reduce("text"),
    "list": lambda: dist.all_reduce([ones()]),
    "meta": lambda: dist.all_reduce(ones(device="meta")),
    "meta, async": lambda: dist.all_reduce(ones(device="meta"), async_op=True).wait(),
    "meta broadcast": lambda: dist.broadcast(ones(device="meta"), 0),
    "meta gathered": lambda: dist.all_gather_into_tensor(ones(8, device="meta"), ones(device="meta")),
    "sparse gathered": lambda: dist.all_gather([ones().to_sparse()] * 2, ones().to_sparse()),
    "sparse broadcast": lambda: dist.broadcast(ones().to_sparse(), 0),
    "not contiguous": lambda: dist.broadcast(torch.ones(4, 4).t()[1:3], 0),
    "lists of several types": lambda: dist.all_gather([ones(), ones(dtype=torch.int32)], ones()),
    "too few pieces": lambda: dist.all_gather([ones()], ones()),
    "piece of another shape": lambda: dist.all_gather([ones(3), ones(3)], ones()),
    "output too small": lambda: dist.all_gather_into_tensor(ones(7), ones()),
    "average": lambda: dist.all_reduce(ones(), op=dist.ReduceOp.AVG),
    "bits of floats": lambda: dist.all_reduce(ones(), op=dist.ReduceOp.BAND),
    "bool summed": lambda: dist.all_reduce(torch.ones(4, dtype=torch.bool)),
    "root that is not there": lambda: dist.broadcast(ones(), 7),
    "no root": lambda: dist.broadcast(ones()),
    "scattered by nobody": lambda: dist.scatter(ones(), [ones()], src=rank),
    "splits that do not add up": lambda: dist.all_to_all_single(ones(), ones(), [1, 1], [1, 1]),
    "one split": lambda: dist.all_to_all_single(ones(), ones(), [4], [4]),
    "to itself": lambda: dist.send(ones(), dst=rank),
    "meta sent": lambda: dist.send(ones(device="meta"), dst=1 - rank),
    "sparse sent": lambda: dist.send(ones().to_sparse(), dst=1 - rank),
    "group that is none": lambda: dist.all_reduce(ones(), group="world"),
    "by the group's own method": lambda: dist.group.WORLD.allreduce([ones()], 1, 2, 3),
    "own method, no list": lambda: dist.group.WORLD.allreduce(7),
    "own method, empty list": lambda: dist.group.WORLD.allreduce([]),
    "own broadcast, no root": lambda: dist.group.WORLD.broadcast(ones(), 5).wait(),
}


def errors() -> Any:
    """All ranks make the same mistakes, sampled and not, and then agree."""
    found: dict[str, Any] = {"before": {name: error_of(call) for name, call in BEFORE.items()}}
    if TIMED:
        found["functions back"] = c10d._new_process_group_helper.__module__
    init_world()
    found["type"] = type(dist.group.WORLD).__name__
    found["again"] = error_of(init)
    for iteration in range(2):
        logger.set_current_iteration(iteration)
        found[f"wrong {iteration}"] = {name: wrong(name, call) for name, call in WRONG.items()}
    logger.set_current_iteration(2)
    found["sparse"] = sparse_sum()
    with logger.label("after"):
        dist.all_reduce(ones())
    if rank == 0:  # a mistake of one rank alone does not shift its numbers
        with logger.label("alone"):
            found["alone"] = error_of(lambda: dist.broadcast(ones().to_sparse(), 0))
    with logger.label("after that"):
        dist.all_reduce(ones())
    return found


def wrong(name: str, call: Callable[[], Any]) -> str:
    with logger.label(name):
        return error_of(call)


def sparse_sum() -> Any:
    tensor = torch.sparse_coo_tensor(torch.tensor([[rank]]), torch.tensor([1.0]), (2,))
    with logger.label("sparse"):
        dist.all_reduce(tensor)
    return tensor.to_dense().tolist()


# -- waits -----------------------------------------------------------------------------------------------


def late(begin: Callable[[Any], Any], name: str) -> Any:
    """Rank 0 waits too briefly for rank 1, who comes when told, and then waits again.

    In a group of its own: some operations of gloo break their group then, of which a rank that sends
    into it may not hear; so rank 1 does not wait for ever either.
    """
    group = new_group(group_desc=name)
    found = None
    with logger.label(name):
        if rank == 0:
            work = begin(group)
            found = [error_of(lambda: work.wait(timedelta(milliseconds=50)))]
            tell(name)
            found += [error_of(work.wait), error_of(work.wait)]
        else:
            hear(name)
            error_of(lambda: begin(group).wait(timedelta(seconds=LATE_LIMIT_S)))
    return found


def begin_message(group: Any) -> Any:
    tensor = ones()
    return dist.irecv(tensor, src=1, group=group) if rank == 0 else dist.isend(tensor, dst=0, group=group)


def dropped() -> Any:
    """Handles that nobody waits on, in groups of their own: gloo may not go on in one of these."""
    by_future, unseen = new_group(), new_group()
    with logger.label("dropped with a future"):
        dist.all_reduce(ones(), group=by_future, async_op=True)
    with logger.label("dropped without"):
        dist.reduce_scatter_tensor(ones(2), ones(4), group=unseen, async_op=True)
        gc.collect()
    kept.extend((by_future, unseen))
    with logger.label("seen to be done"):
        work = dist.all_reduce(ones(), async_op=True)
        until(work.is_completed)
        found = [work.is_completed(), work.is_success(), work.wait(), work.wait()]
    with logger.label("waited for by its future"):
        work = dist.all_reduce(ones(), async_op=True)
        found.append(work.get_future().wait()[0].tolist())
    return found


def waits() -> Any:
    init_world()
    return {
        "all_reduce": late(lambda group: dist.all_reduce(ones(), group=group, async_op=True), "all_reduce"),
        "message": late(begin_message, "message"),
        "dropped": dropped(),
    }


# -- a group's life --------------------------------------------------------------------------------------


def life() -> Any:
    """Made, destroyed in part and as a whole, and made again."""
    init_world()
    found: dict[str, Any] = {}
    part = new_group(group_desc="part")
    dist.all_reduce(ones(), group=part)
    with logger.label("first world"):
        dist.all_reduce(ones())
    dist.destroy_process_group(part)
    found["part is gone"] = error_of(lambda: dist.all_reduce(ones(), group=part))
    found["twice"] = error_of(lambda: dist.destroy_process_group(part))
    found["world is not"] = error_of(lambda: dist.all_reduce(ones()))
    found["count"] = dist.get_pg_count()
    dist.destroy_process_group()
    found["initialised"] = dist.is_initialized()
    found["over no world"] = error_of(lambda: dist.all_reduce(ones()))
    init_world()
    with logger.label("second world"):
        dist.all_reduce(ones())
    found["type of the second"] = type(dist.group.WORLD).__name__
    found["timeouts"] = timeouts()
    dist.destroy_process_group()
    return found


def timeouts() -> Any:
    """What is set on a group counts for what comes after; each in a group of its own, as gloo's breaks."""
    found = {}
    setters: dict[str, Callable[[Any], Any]] = {
        "set_timeout": lambda group: group.set_timeout(timedelta(milliseconds=200)),
        "_set_pg_timeout": lambda group: c10d._set_pg_timeout(timedelta(milliseconds=200), group),
    }
    if not hasattr(dist.ProcessGroup, "set_timeout"):  # in torch 2.8
        del setters["set_timeout"]
    for name, setter in setters.items():
        group = new_group()
        setter(group)
        found[name] = lonely(name, group)
    brief = new_group(timeout=timedelta(milliseconds=200))
    found["made with"] = lonely("made with", brief)
    aborted = new_group()
    found["abort"] = [error_of(aborted.abort), error_of(lambda: c10d._abort_process_group(new_group()))]
    found["shutdown"] = error_of(new_group().shutdown)
    return found


def lonely(name: str, group: Any) -> str:
    """Rank 0's error of a barrier to which rank 1 does not come."""
    found = ""
    if rank == 0:
        with logger.label(f"timeout by {name}"):
            found = error_of(lambda: dist.all_reduce(ones(), group=group))
        tell(name)
    else:
        hear(name)
    return found.split("#")[0]


def end_world() -> None:
    dist.barrier()  # gloo's ranks may be connecting still
    dist.destroy_process_group()


def off() -> Any:
    """A logger that is off: the group is torch's own, whatever was timed before."""
    found = {}
    nothing = TimingLogger(rank, None, enabled=False)

    def init_off() -> None:
        global worlds
        worlds += 1
        meeting = dist.PrefixStore(f"world {worlds}", store)
        allreduce_instrumentation.init_process_group(
            "gloo", timing_logger=nothing, store=meeting, rank=rank, world_size=2
        )

    init_off()
    found["first"] = [type(dist.group.WORLD) is dist.ProcessGroup, c10d._new_process_group_helper.__module__]
    end_world()
    init_world()
    found["timed"] = [type(dist.group.WORLD) is TimedProcessGroup]
    end_world()
    init_off()
    found["after a timed one"] = [type(dist.group.WORLD) is dist.ProcessGroup]
    end_world()
    meeting = dist.PrefixStore("torch's own world", store)
    dist.init_process_group("gloo", store=meeting, rank=rank, world_size=2)
    found["torch's own after a timed one"] = [type(dist.group.WORLD) is dist.ProcessGroup]
    return found


# -- a rank that dies ------------------------------------------------------------------------------------


def death() -> Any:
    """Rank 1 ends in the middle; what rank 0 gets."""
    init_world()
    pair = new_group(group_desc="pair")
    dist.barrier()
    dist.barrier(pair)
    if rank == 1:
        os._exit(0)
    found = {}
    with logger.label("async"):
        work = dist.all_reduce(ones(1 << 20), async_op=True)
        found["async"] = error_of(work.wait)
    with logger.label("sync"):
        found["sync"] = error_of(lambda: dist.all_reduce(ones(1 << 20), group=pair))
    with logger.label("after"):
        found["after"] = error_of(lambda: dist.all_reduce(ones()))
    with logger.label("message"):
        found["message"] = error_of(lambda: dist.recv(ones(), src=1))
    return found


# -- ends of a process -----------------------------------------------------------------------------------


def open_at_exit() -> None:
    """Rank 0 ends with operations that rank 1 never joins; nobody destroys a group.

    Rank 1 goes when rank 0 has done all that Python does at exit, its timing logger's part included:
    then gloo's threads see the connection break, in a process that is half gone.
    """
    init_world()
    dist.barrier()
    if rank == 1:
        hear("leaving")
        os._exit(0)
    kept.append(dist.all_reduce(ones(), async_op=True))
    kept.append(dist.irecv(ones(), src=1))
    print("\nRESULTS []", flush=True)
    sys.exit(0)


def open_at_close() -> None:
    """The logger is closed while rank 1 has not joined yet; then it joins."""
    init_world()
    if rank == 1:
        hear("closed")
    kept.append(dist.all_reduce(ones(), async_op=True))
    kept.append(dist.irecv(ones(), src=1) if rank == 0 else dist.isend(ones(), dst=0))
    if rank == 0:
        logger.close()
        tell("closed")
    for work in kept:
        work.wait()


def undestroyed() -> None:
    """Nobody destroys the group, and everything was waited for."""
    init_world()
    dist.all_reduce(ones())
    dist.all_reduce(ones(), async_op=True).wait()
    dist.barrier()
    if rank == 0:
        print("\nRESULTS []", flush=True)
    sys.exit(0)


kept: list[Any] = []
SCENES: dict[str, Callable[[], Any]] = {
    "errors": errors,
    "waits": waits,
    "life": life,
    "off": off,
    "death": death,
    "open at exit": open_at_exit,
    "open at close": open_at_close,
    "undestroyed": undestroyed,
}
results = {"found": SCENES[SCENE](), "rows": rows()}
everyone: list[Any] = [results]
if SCENE != "death":
    if not dist.is_initialized():
        init_world()
    everyone = [None] * 2
    dist.all_gather_object(everyone, results)
if rank == 0:
    print("\nRESULTS " + json.dumps(everyone), flush=True)
dist.destroy_process_group()
