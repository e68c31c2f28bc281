"""Makes the timing files and sidecars that a logger leaves of a run that hung, without running it.

A run trains for ten iterations of one second, each with a ``FORWARD`` and an ``ALLREDUCE`` of the world.
Then it hangs, and after ``HUNG_S`` more seconds all processes are killed. Their clocks begin at 0 with the
run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from timing_files import EPOCH_S, content, record

from timing_logger.process.this_process import of_this_process
from timing_logger.schema.record import NS_PER_S, Record
from timing_logger.schema.sidecar import Counters, RunInfo
from timing_logger.schema.timing_files import TimingFile, sidecar_path

STEPS = 10
STUCK_AT_S = float(STEPS)
HUNG_S = 118.0
END_S = STUCK_AT_S + HUNG_S
WORLD = "MPI_COMM_WORLD"


def allreduce(step: int, **fields: Any) -> Record:
    """Return the record of the world's collective in iteration ``step``: the second half of its second."""
    plain = {"iteration": step, "group": WORLD, "group_size": 4, "seq": step, "layer_name": "bucket0"}
    return record("ALLREDUCE", step + 0.5, 500.0, **{**plain, **fields})


def trained(steps: int = STEPS) -> list[Record]:
    """Return the records of one rank for the first ``steps`` iterations."""
    return [
        row
        for step in range(steps)
        for row in (
            record("FORWARD", float(step), 400.0, iteration=step, group="", group_size=None, seq=None),
            allreduce(step),
        )
    ]


def inflight(operation: str = "ALLREDUCE", start_s: float = STUCK_AT_S, **fields: Any) -> Record:
    """Return the record of a call that was open when it was written."""
    plain = {
        "iteration": STEPS, "group": WORLD, "group_size": 4, "seq": STEPS, "layer_name": "bucket0",
        "status": "inflight",
    }  # fmt: skip
    return record(operation, start_s, None, **{**plain, **fields})


def open_call(operation: str = "ALLREDUCE", start_s: float = STUCK_AT_S, **fields: Any) -> dict[str, Any]:
    """Return an open call as it is in a sidecar."""
    plain = {
        "thread": "MainThread", "operation": operation, "layer_name": "bucket0", "iteration": STEPS,
        "epoch": 0, "group": WORLD, "group_size": 4, "seq": STEPS, "peer": None, "message_size_bytes": 4096,
        "start_counter_ns": round(start_s * NS_PER_S),
    }  # fmt: skip
    return {**plain, **fields}


def counted(issued: int, completed: int | None = None, group: str = WORLD, size: int = 4) -> dict[str, Any]:
    """Return a group's counts as they are in a sidecar; by default all issued operations are completed."""
    return {
        "group": group,
        "size": size,
        "issued": issued,
        "completed": issued if completed is None else completed,
    }


@dataclass
class Rank:
    """What one process leaves behind; times are in s since the run began.

    Attributes:
        rows: the rows of its file.
        seen_s: when its sidecar was last refreshed.
        progressed_s: when an operation was last begun or recorded.
        closed: whether its logger was closed.
        sidecar: further fields of its sidecar, or other values than usual.
    """

    rows: Sequence[Record] = field(default_factory=trained)
    seen_s: float = END_S
    progressed_s: float = STUCK_AT_S
    closed: bool = False
    sidecar: dict[str, Any] = field(default_factory=dict)


def waiting(*more: Record, **sidecar: Any) -> Rank:
    """Return a rank that is inside the world's collective since ``STUCK_AT_S``."""
    return Rank([*trained(), inflight(), *more], sidecar=sidecar)


def write_run(folder: Path, *ranks: Rank, world_size: int | None = None) -> Path:
    """Write the files of these ranks, numbered from 0, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, rank in enumerate(ranks):
        write_rank(folder, number, rank, world_size or len(ranks))
    return folder


def write_rank(folder: Path, number: int, rank: Rank, world_size: int) -> None:
    """Write the timing file and the sidecar of rank ``number``."""
    path = folder / TimingFile(number).name
    path.write_bytes(content(rank.rows))
    n_rows = len(rank.rows)
    info = RunInfo(
        file=path.name, rank=number, incarnation=1, world_size=world_size, labels={},
        options={"hang_after": 60.0}, started_unix_ns=EPOCH_S * NS_PER_S,
        updated_unix_ns=_unix_ns(rank.seen_s), closed=rank.closed, counters=Counters(n_rows, n_rows, 0, 0),
        **{**of_this_process(), "host": "node0", "boot_id": "boot0"},
    )  # fmt: skip
    sidecar = json.loads(info.to_json())
    sidecar |= {
        "clock_anchors": [{"perf_counter_ns": 0, "unix_ns": EPOCH_S * NS_PER_S, "uncertainty_ns": 0}],
        "open_calls": [], "groups": [], "signal": "", "idle_stack": [],
        "last_progress_counter_ns": round(rank.progressed_s * NS_PER_S),
    }  # fmt: skip
    sidecar_path(path).write_text(json.dumps({**sidecar, **rank.sidecar}))


def _unix_ns(at_s: float) -> int:
    return round((EPOCH_S + at_s) * NS_PER_S)
