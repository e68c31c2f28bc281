"""Two ranks: what callers see of a group of gloo, of torch and then timed; and of a group made in Python.

The cases are behaviours that torch tests of its own groups, and that something in between could change.
"""

from __future__ import annotations

import json
import os
import warnings
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from oracle_calls import CALLS, world
from oracle_gradients import GRADIENTS
from oracle_python_group import PYTHON_GROUP_CHECKS
from torch.distributed import distributed_c10d as c10d

from allreduce_instrumentation import init_process_group
from timing_logger.recording.logger import TimingLogger
from timing_logger.sinks.memory import MemorySink

torch.set_num_threads(1)
warnings.simplefilter("ignore")
rank = int(os.environ["RANK"])


def own_store(name: str) -> dict[str, Any]:
    """So that a second group does not find the addresses that a first one left."""
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    limit = timedelta(seconds=60)
    return {"store": dist.PrefixStore(name, store), "rank": rank, "world_size": 2, "timeout": limit}


def all_checks() -> dict[str, Any]:
    found = {}
    for name, check in (CALLS | GRADIENTS).items():
        found[name] = check()
        c10d._store_based_barrier(rank, c10d._get_default_store(), name, 2, timedelta(seconds=60))
    return found


def end_world() -> None:
    dist.barrier()  # the other rank may be connecting still, and would see this one leave
    dist.destroy_process_group()


results: dict[str, Any] = {}
dist.init_process_group("gloo", **own_store("of torch"))
results["torch"] = all_checks()
end_world()

sink = MemorySink()
with TimingLogger(rank, None, sinks=[sink]) as logger:
    init_process_group("gloo", timing_logger=logger, **own_store("timed"))
    results["timed"] = all_checks()
    logger.flush()
    messages_sent = [r for r in sink.records if r.operation in ("ISEND", "IRECV") and r.status == "ok"]
    results["rows"] = len(sink.records)
    results["peers"] = sorted({str(record.peer) for record in messages_sent})
    results["kinds"] = {"timed": type(world()).__name__}
    end_world()

    off = TimingLogger(rank, None, enabled=False)
    init_process_group("gloo", timing_logger=off, **own_store("off"))
    results["kinds"]["logger is off"] = type(world()).__name__
    end_world()
    dist.init_process_group("gloo", **own_store("of torch again"))
    results["kinds"]["of torch again"] = type(world()).__name__
    end_world()

    results["python"] = {name: check(logger) for name, check in PYTHON_GROUP_CHECKS.items()}

dist.init_process_group("gloo", **own_store("for the results"))
everyone: list[Any] = [None, None]
dist.all_gather_object(everyone, results)
if rank == 0:
    print("\nRESULTS " + json.dumps(everyone), flush=True)
end_world()
