"""The all-reducers' results, rows and refusals over MPI.

Arguments: the dtypes of what is tried with several, with commas, and the numbers of ranks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
from _ranks import communicators, recording, report
from _reductions import (
    SPARSE,
    WITHOUT_LOSS,
    Ranks,
    as_in_one_process,
    dtypes_of,
    let_go_and_kept_elsewhere,
    names_do_not_mix,
    nothing_left_out,
    shapes_and_memory,
    what_becomes_of_the_gradient,
    whole_numbers,
)
from _refusals import different_calls, error_of, refused, too_large
from mpi4py import MPI

from allreduce_instrumentation import TimedIntracomm
from allreduce_instrumentation.compressors import NoCompression, TopK
from allreduce_instrumentation.sparse import dense_allreduce, gtopk_sparse_allreduce
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import Record

torch.set_num_threads(1)


def columns(record: Record) -> list[Any]:
    return [
        record.operation, record.phase, record.message_size_bytes, record.seq, record.peer, record.status,
    ]  # fmt: skip


def rows(ranks: Ranks) -> dict[str, Any]:
    """Of one call each, on a communicator of its own, 25 entries of which 5 are picked."""
    found: dict[str, Any] = {}
    calls = [(name, reduce, make, torch.float32) for name, (reduce, make) in WITHOUT_LOSS.items()]
    calls.append(("gtopk of halves", SPARSE["gtopk"], NoCompression, torch.bfloat16))
    with recording() as (logger, records):
        for name, reduce, make, dtype in calls:
            made = make() if name.startswith("dense") else TopK(0.2)
            comm = TimedIntracomm(ranks.comm.Dup(), timing_logger=logger, group="everyone")
            tensor = whole_numbers(ranks.rank, 0, 25, dtype)
            reduce(tensor, comm=comm, compressor=made, name=f"layer {name}")
    names = [name for name, *_ in calls]
    for name in names:
        mine = [r for r in records if r.layer_name == f"layer {name}"]
        found[name] = [columns(r) for r in mine]
        grouped = [r for r in mine if r.operation not in ("COMPRESS", "DECOMPRESS", "MERGE")]
        found[f"{name}, groups"] = sorted({(r.group, r.group_size) for r in grouped})
    found["elsewhere"] = sorted({r.layer_name for r in records} - {f"layer {n}" for n in names})
    found["durations"] = all(r.end_ns is not None and r.end_ns > r.start_ns for r in records)
    return found


def loggers(ranks: Ranks) -> dict[str, Any]:
    """Who gets the rows: the call's logger, or that of the communicator."""
    found = {}
    tensor, off = torch.ones(6), TimingLogger(0, enabled=False)
    for communicator in ("plain", "timed"):
        for given in (True, False):
            with recording() as (of_comm, comm_records), recording() as (of_call, call_records):
                comm = ranks.comm
                if communicator == "timed":
                    comm = TimedIntracomm(ranks.comm, timing_logger=of_comm)
                logger = of_call if given else None
                gtopk_sparse_allreduce(
                    tensor, comm=comm, compressor=TopK(0.5), name="w", timing_logger=logger
                )
            found[f"{communicator}, {'given' if given else 'none'}"] = [
                sorted({r.operation for r in records}) for records in (comm_records, call_records)
            ]
    with recording() as (logger, records):
        comm = TimedIntracomm(ranks.comm, timing_logger=logger)
        timed, untimed = (
            gtopk_sparse_allreduce(tensor, comm=c, compressor=TopK(0.5), name="w")
            for c in (comm, TimedIntracomm(ranks.comm, timing_logger=off))
        )
        logger.flush()
        rows_before = len(records)
        gtopk_sparse_allreduce(
            tensor,
            comm=TimedIntracomm(ranks.comm, timing_logger=off),
            compressor=TopK(0.5),
            name="w",
            timing_logger=off,
        )
    found["off"] = [bool((untimed == timed).all()), len(records) == rows_before]
    return found


def unusable_communicators(ranks: Ranks) -> dict[str, Any]:
    """Each is refused without waiting for anybody."""
    freed = ranks.comm.Dup()
    timed = TimedIntracomm(ranks.comm.Dup())
    side = ranks.comm.Split(ranks.rank % 2)
    between = side.Create_intercomm(0, ranks.comm, 1 - ranks.rank % 2) if ranks.size > 1 else None
    freed.Free()
    timed.Free()
    comms: dict[str, Any] = {
        "freed": freed, "freed and timed": timed, "null": MPI.COMM_NULL, "none": None, "a number": 3,
    }  # fmt: skip
    if between is not None:
        comms["intercommunicator"] = between
    return {name: error_of(lambda c=comm: _dense(c)) for name, comm in comms.items()}


def _dense(comm: Any) -> Any:
    return dense_allreduce(torch.ones(3), comm=comm, compressor=NoCompression(), name="w")


class BrokenAllgather(TimedIntracomm):
    """The second one fails, which is after the agreement."""

    done = 0

    def Allgather(self, *args: Any, **kwargs: Any) -> None:
        self.done += 1
        if self.done == 2:
            raise MPI.Exception(MPI.ERR_OTHER)
        super().Allgather(*args, **kwargs)


def mpi_fails(ranks: Ranks) -> list[Any]:
    """On all ranks: what is raised, and whether the compressor remembers what it did before."""
    compressor = TopK(0.5)
    tensor = whole_numbers(ranks.rank, 0, 10, torch.float32)
    SPARSE["topk"](tensor, comm=ranks.comm, compressor=compressor, name="w")
    before = compressor.residual("w")
    broken = BrokenAllgather(ranks.comm.Dup())
    error = error_of(lambda: SPARSE["topk"](tensor, comm=broken, compressor=compressor, name="w"))
    after = compressor.residual("w")
    return [error, before is not None and after is not None and bool((before == after).all())]


def parts_of_the_world(ranks: Ranks) -> Any:
    """The mean over a communicator of every second rank."""
    rank = ranks.rank
    part = ranks.comm.Split(rank % 2, rank)
    return _dense(part).tolist() == [1.0] * 3 and [
        gtopk_sparse_allreduce(torch.tensor([float(rank)]), comm=part, compressor=TopK(1.0), name="w").item(),
        sum(range(rank % 2, ranks.size, 2)) / part.size,
    ]


CHECKS: dict[str, Callable[[Ranks], Any]] = {
    "nothing left out": nothing_left_out,
    "as in one process": as_in_one_process,
    "gradient": what_becomes_of_the_gradient,
    "let go": let_go_and_kept_elsewhere,
    "shapes and memory": shapes_and_memory,
    "names": names_do_not_mix,
    "refused": refused,
    "too large": too_large,
    "different calls": different_calls,
    "rows": rows,
    "loggers": loggers,
    "unusable communicators": unusable_communicators,
    "MPI fails": mpi_fails,
    "parts": parts_of_the_world,
}


def results_on(ranks: Ranks) -> dict[str, Any]:
    results: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for name, check in CHECKS.items():
        start = perf_counter()
        results[name] = check(ranks)
        seconds[name] = round(perf_counter() - start, 2)
    return {**results, "seconds": seconds}


dtypes, numbers = dtypes_of(sys.argv[1]), map(int, sys.argv[2:])
report(
    [
        [comm.size, comm.rank, results_on(Ranks(comm, comm.rank, comm.size, dtypes))]
        for comm in communicators(*numbers)
    ]
)
