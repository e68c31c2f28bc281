"""Write the timing files and sidecars of a run of many ranks, to measure what a file costs to read and judge.

Each step has the five rows of data-parallel training: DATA, FORWARD, BACKWARD, an ALLREDUCE that ends on all
ranks together, and OPTIMIZER. One rank is slow in FORWARD. Eight ranks share a host and its clock, whose
offset to rank 0 was measured at the start and at the end.

Run: python benchmarks/many_ranks.py FOLDER --ranks 4096 --rows 1000
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from timing_logger.schema.record import COLUMNS, HEADER
from timing_logger.schema.sidecar import ClockAnchor, ClockOffset, Counters, FilePart, GroupProgress, RunInfo
from timing_logger.schema.timing_files import TimingFile, sidecar_path

ROWS_PER_STEP = 5
SLOW_RANK = 77
SLOWER = 1.3
RANKS_PER_HOST = 8

_DATA, _FORWARD, _BACKWARD, _OPTIMIZER = range(4)
_USUAL_MS = np.array([3.0, 30.0, 35.0, 4.0])
_REDUCTION_NS = 3_000_000
_GAP_NS = 20_000
_START_NS = 10**12
_UNIX_NS = 1_770_388_245 * 10**9

_OF_EVERY_LINE = {
    "timestamp": "%s", "iteration": "{0}", "epoch": "0", "elapsed_ms": "%.6f", "start_counter": "%.9f",
    "end_counter": "%.9f", "clock": "host", "thread": "MainThread", "status": "ok",
}  # fmt: skip
_REDUCTION = {"message_size_bytes": "33554432", "group": "world", "group_size": "{1}", "seq": "{0}"}


def _line(layer: str, operation: str, others: dict[str, str] | None = None) -> str:
    cells = {**_OF_EVERY_LINE, "layer_name": layer, "operation": operation, **(others or {})}
    return ",".join([cells.get(name, "") for name in COLUMNS]) + "\n"


_LINES = (
    _line("loader", "DATA")
    + _line("model", "FORWARD")
    + _line("model", "BACKWARD")
    + _line("gradients", "ALLREDUCE", _REDUCTION)
    + _line("adam", "OPTIMIZER")
)

_Ints = npt.NDArray[np.int64]


def write_many_ranks(folder: Path, n_ranks: int, n_rows: int, seed: int = 0) -> None:
    """Write ``n_rows`` rows for each of ``n_ranks`` ranks, of which rank 77 is 30% slower in FORWARD."""
    folder.mkdir(parents=True, exist_ok=True)
    n_steps = max(1, n_rows // ROWS_PER_STEP)
    lengths_ns = _lengths_ns(n_ranks, n_steps, np.random.default_rng(seed))
    ends_ns = _reductions_end_ns(lengths_ns)
    lines = [_LINES.format(step, n_ranks) for step in range(n_steps)]
    for rank in range(n_ranks):
        starts_ns, stops_ns = _intervals(lengths_ns[rank], ends_ns)
        path = folder / TimingFile(rank).name
        path.write_text(HEADER + _text(starts_ns, stops_ns, _clock_offset_ns(rank), lines))
        _write_sidecar(path, rank, n_ranks, n_steps, int(stops_ns[-1, -1]))


def _lengths_ns(n_ranks: int, n_steps: int, rng: np.random.Generator) -> _Ints:
    """Return how long each rank takes in each step for what it does alone, in ns: ranks x steps x 4."""
    lengths_ms = _USUAL_MS * rng.lognormal(0, 0.03, (n_ranks, n_steps, len(_USUAL_MS)))
    lengths_ms[SLOW_RANK : SLOW_RANK + 1, :, _FORWARD] *= SLOWER
    return (lengths_ms * 1e6).astype(np.int64)


def _reductions_end_ns(lengths_ns: _Ints) -> _Ints:
    """Return when the reduction of each step ends: a while after the last rank came."""
    alone_ns = lengths_ns[:, :, :_OPTIMIZER].sum(axis=2) + _OPTIMIZER * _GAP_NS
    alone_ns[:, 1:] += lengths_ns[:, :-1, _OPTIMIZER] + 2 * _GAP_NS
    return _START_NS + np.cumsum(alone_ns.max(axis=0) + _REDUCTION_NS)


def _intervals(lengths_ns: _Ints, ends_ns: _Ints) -> tuple[_Ints, _Ints]:
    """Return starts and ends of a rank's rows, in ns on the axis of rank 0: steps x 5 each."""
    starts_ns = np.empty((len(ends_ns), ROWS_PER_STEP), np.int64)
    stops_ns = np.empty_like(starts_ns)
    optimized_ns = ends_ns + _GAP_NS + lengths_ns[:, _OPTIMIZER]
    starts_ns[:, 0] = np.concatenate([[_START_NS], optimized_ns[:-1] + _GAP_NS])
    for place, length in enumerate((_DATA, _FORWARD, _BACKWARD)):
        stops_ns[:, place] = starts_ns[:, place] + lengths_ns[:, length]
        starts_ns[:, place + 1] = stops_ns[:, place] + _GAP_NS
    stops_ns[:, 3], starts_ns[:, 4], stops_ns[:, 4] = ends_ns, ends_ns + _GAP_NS, optimized_ns
    return starts_ns, stops_ns


def _text(starts_ns: _Ints, stops_ns: _Ints, offset_ns: int, lines: list[str]) -> str:
    """Return the lines of a file, one step after the other."""
    shape = (len(lines), ROWS_PER_STEP, 1)
    stamps = np.datetime_as_string((starts_ns + (_UNIX_NS - _START_NS)).astype("M8[ns]"), unit="us")
    cells: list[npt.NDArray[Any]] = [
        stamps, (stops_ns - starts_ns) / 1e6, (starts_ns - offset_ns) / 1e9, (stops_ns - offset_ns) / 1e9
    ]  # fmt: skip
    rows = np.concatenate([one.astype(object).reshape(shape) for one in cells], axis=2)
    return "".join([line % tuple(row) for line, row in zip(lines, rows.reshape(len(lines), -1), strict=True)])


def _clock_offset_ns(rank: int) -> int:
    """Return what is to be added to an instant of the rank's host for that on the host of rank 0."""
    return rank // RANKS_PER_HOST * 123_456_789


def _write_sidecar(path: Path, rank: int, n_ranks: int, n_steps: int, stop_ns: int) -> None:
    n_rows, n_bytes, host = n_steps * ROWS_PER_STEP, path.stat().st_size, rank // RANKS_PER_HOST
    begun_ns, ended_ns = (instant_ns - _clock_offset_ns(rank) for instant_ns in (_START_NS, stop_ns))
    unix_ns = _UNIX_NS - _START_NS + _clock_offset_ns(rank)
    measured = [
        ClockOffset(at_ns, _clock_offset_ns(rank), 4_000, 0, "node0", "boot0", 100)
        for at_ns in (begun_ns, ended_ns)
    ]
    info = RunInfo(
        file=path.name, rank=rank, incarnation=1, world_size=n_ranks, labels={},
        options={"flush_interval": 1.0, "maxsize": 100000, "record_every_n_steps": 1, "hang_after": 60.0},
        started_unix_ns=_UNIX_NS, updated_unix_ns=ended_ns + unix_ns, closed=True,
        clock_anchors=[ClockAnchor(begun_ns, begun_ns + unix_ns, 170)],
        clock_offsets=measured if host else [], counters=Counters(n_rows, n_rows, 0, 0),
        written_bytes=n_bytes, parts=[FilePart(path.name, n_rows, n_bytes)],
        groups=[GroupProgress("world", n_ranks, n_steps, n_steps)], last_progress_counter_ns=ended_ns,
        run_id="many", world="", launch_id="", host=f"node{host}", boot_id=f"boot{host}", pid=1000 + rank,
    )  # fmt: skip
    sidecar_path(path).write_text(info.to_json())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=512)
    parser.add_argument("--rows", type=int, default=1000, help="of each rank")
    arguments = parser.parse_args()
    write_many_ranks(arguments.folder, arguments.ranks, arguments.rows)


if __name__ == "__main__":
    main()
