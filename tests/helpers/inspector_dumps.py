"""Dumps as NCCL Inspector writes them, for tests: no device is needed.

The fields and their order are those of ``inspector_json.cc`` of NCCL 2.30; 2.28 and 2.29 write no
``comm_name``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RANKS, STEPS = 4, 60
FIRST_US = 1_770_388_000_000_000
STEP_US, TRANSFER_US = 30_000, 3_000
N_BYTES = 2**24


def line(
    rank: int, perf: dict[str, Any], *, at_us: int = FIRST_US, pid: int | None = None, **header: Any
) -> dict[str, Any]:
    """Return a record; ``perf`` is its ``coll_perf`` or ``p2p_perf``."""
    key = "p2p_perf" if "p2p" in perf else "coll_perf"
    return {
        "header": {"id": "0x7f8c496ae9f661", "comm_name": "DP Group 0", "rank": rank, "n_ranks": RANKS,
                   "nnodes": 2, **header},
        "metadata": {"inspector_output_format_version": "v4.0", "git_rev": "", "rec_mechanism":
                     "nccl_profiler_interface", "dump_timestamp_us": at_us, "hostname": f"node{rank // 2}",
                     "pid": 1000 + rank if pid is None else pid},
        key: perf,
    }  # fmt: skip


def collective(sn: int, lasts_us: int, start_us: int | None = None, **further: Any) -> dict[str, Any]:
    """Return what is measured of a collective; with the instants of a verbose dump if it has a start."""
    measured = {
        "coll": "AllReduce", "coll_sn": sn, "coll_msg_size_bytes": N_BYTES, "coll_exec_time_us": lasts_us,
        "coll_timing_source": "kernel_gpu", "coll_algobw_gbs": 1.0, "coll_busbw_gbs": 1.5, **further,
    }  # fmt: skip
    if start_us is not None:
        kernels = [
            {"channel_id": i, "kernel_start_ts": start_us + i, "kernel_stop_ts": start_us + lasts_us}
            for i in range(2)
        ]
        measured["event_trace_ts"] = {
            "coll_start_ts": start_us - 50, "coll_stop_ts": start_us - 45, "kernel_events": kernels,
        }  # fmt: skip
    return measured


def records_of(rank: int, slow_rank: int | None, *, verbose: bool = True) -> list[dict[str, Any]]:
    """Return the records of a rank: an all-reduce in each step, to which one rank comes late."""
    found = []
    for step in range(STEPS):
        came = [step * STEP_US + (8000 if r == slow_rank else 100 * ((step + r) % 3)) for r in range(RANKS)]
        start_us = FIRST_US + came[rank]
        lasts_us = max(came) - came[rank] + TRANSFER_US
        found.append(line(rank, collective(step, lasts_us, start_us if verbose else None)))
    return found


def write_dumps(folder: Path, slow_rank: int | None, *, verbose: bool = True) -> Path:
    """Write the dumps of all ranks, named as the Inspector names them."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(RANKS):
        write_records(
            folder / f"node{rank // 2}-pid{1000 + rank}.log", records_of(rank, slow_rank, verbose=verbose)
        )
    return folder


def write_records(path: Path, records: list[Any]) -> Path:
    """Write records, a line each."""
    path.write_text("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records))
    return path
