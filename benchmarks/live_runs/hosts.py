"""Make the digests that the monitors of hosts would make of a simulated job, at any moment of it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from live_runs.job import OPERATIONS, Played, intervals
from timing_logger.analysis.hangs.last_rows import last_rows
from timing_logger.live.digest import NUMBERS, TEXTS, WHOLE, Digest, ProcessPlace, RowArrays, Texts
from timing_logger.live.looking import MOST_BYTES_PER_S
from timing_logger.live.packed import packed_within, unpacked
from timing_logger.live.sampled_steps import most_rows, of_fewer_rows
from timing_logger.schema.sidecar import ClockAnchor, ClockOffset, Counters, GroupProgress, RunInfo

RANKS_PER_HOST = 8
FLUSHED_EVERY_S = 1.0

_BEGAN_UNIX_S = time.time()
_CLOCK_OFFSET_S = 1000.0  # between the clocks of neighbouring hosts
_BOOTED_S = 10_000.0
_BYTES = {"ALLREDUCE": 33_554_432}
_NS = 10**9
_LAYERS = ("loader", "model", "loss", "gradients", "adam")


def unix_s(at_s: float) -> float:
    """Return a moment of a job in seconds since 1970."""
    return _BEGAN_UNIX_S + at_s


class Host:
    """The monitor of a host, or of several hosts that look at the same moments.

    Args:
        run: the job.
        name: of the digests.
        ranks: whose digests it makes.
        every: of how many steps it chooses one.
        phase_s: when it looks first; rows are flushed at other moments, drawn by the seed of the job.
    """

    def __init__(
        self, run: Played, name: str, ranks: npt.NDArray[np.int64], every: int, phase_s: float
    ) -> None:
        self.name, self.phase_s = name, phase_s
        self._run, self._ranks, self._every = run, ranks, every
        self._flush_s = float(
            np.random.default_rng([run.job.seed, int(ranks[0])]).uniform(0, FLUSHED_EVERY_S)
        )
        self._next, self._number = 0, 0
        self._sidecars = [_sidecar(rank, run.job.n_ranks) for rank in ranks.tolist()]

    def digest(self, at_s: float, *, with_last: bool = False) -> Digest:
        """Return the digest of what was flushed since the one before.

        Args:
            at_s: when it is made.
            with_last: whether it has the last rows of each process, as that of whoever judges has.
        """
        written_s = (at_s - self._flush_s) // FLUSHED_EVERY_S * FLUSHED_EVERY_S + self._flush_s
        first, self._next = self._next, max(self._next, int(np.searchsorted(self._run.ready_s, written_s)))
        steps = np.arange(first, self._next)
        begins_s, ends_s = intervals(self._run, steps[steps % self._every == 0], self._ranks)
        rows = rows_of(steps[steps % self._every == 0], self._ranks, begins_s, ends_s, self._run.job.n_ranks)
        last = [last_rows(its) for _, its in rows.table().groupby("rank")] if with_last else []
        self._number += 1
        processes = self._processes(at_s, steps)
        digest = Digest(self.name, self._number - 1, unix_s(at_s), self._every, processes, rows, last)
        of_one_host = processes[:RANKS_PER_HOST]
        return of_fewer_rows(digest, most_rows(of_one_host) * len(processes) / len(of_one_host))

    def _processes(self, at_s: float, steps: npt.NDArray[np.int64]) -> list[ProcessPlace]:
        since_s = until_s = np.full(len(self._ranks), np.nan)
        if len(steps):
            begins_s, ends_s = intervals(self._run, steps[[0, -1]], self._ranks)
            since_s, until_s = begins_s[:, 0, 0], ends_s[:, 1, -1]
        latest = int(steps[-1]) + 1 if len(steps) else None
        written = len(OPERATIONS) * self._next
        of_world = {"group": "world", "size": self._run.job.n_ranks}
        refreshed = {
            "updated_unix_ns": int(unix_s(at_s) * _NS),
            "counters": {"accepted": written, "written": written, "dropped": 0, "pending": 0},
            "groups": [{**of_world, "issued": self._next, "completed": self._next}],
            "last_progress_counter_ns": int((_BOOTED_S + at_s) * _NS),
        }  # fmt: skip
        return [
            ProcessPlace(
                rank=int(rank), incarnation=1, generation=0, sidecar={**sidecar, **refreshed},
                n_rows=len(OPERATIONS) * len(steps), n_iterations=len(steps),
                since_s=since + offset_s, until_s=until + offset_s,
                wall_offset_s=_BEGAN_UNIX_S - offset_s if len(steps) else float("nan"),
                iteration=latest, epoch=0, written=written, counted=False, unfinished=0,
                changed_unix_s=unix_s(at_s),
            )
            for rank, sidecar, since, until, offset_s in zip(
                self._ranks, self._sidecars, since_s.tolist(), until_s.tolist(),
                clock_offsets_s(self._ranks).tolist(), strict=True,
            )
        ]  # fmt: skip


def clock_offsets_s(ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return what the clock of each rank's host shows when the job begins."""
    return _BOOTED_S + _CLOCK_OFFSET_S * (ranks // RANKS_PER_HOST)


def rows_of(
    steps: npt.NDArray[np.int64],
    ranks: npt.NDArray[np.int64],
    begins_s: npt.NDArray[np.float64],
    ends_s: npt.NDArray[np.float64],
    n_ranks: int,
) -> RowArrays:
    """Return the rows of steps as a digest has them; the instants are ranks x steps x operations."""
    n_rows, pattern = begins_s.size, len(ranks) * len(steps)
    offsets_s = clock_offsets_s(ranks)[:, None, None]
    collective = np.tile([name in _BYTES for name in OPERATIONS], pattern)
    step = np.tile(np.repeat(steps, len(OPERATIONS)), len(ranks)).astype(np.float64)
    place = np.tile(np.arange(len(OPERATIONS), dtype=np.int32), pattern)
    stated: dict[str, Any] = {
        "iteration": step, "epoch": 0.0, "elapsed_ms": ((ends_s - begins_s) * 1000).ravel(),
        "message_size_bytes": np.where(collective, _BYTES["ALLREDUCE"], np.nan),
        "start_counter": (begins_s + offsets_s).ravel(), "end_counter": (ends_s + offsets_s).ravel(),
        "group_size": np.where(collective, n_ranks, np.nan), "seq": np.where(collective, step, np.nan),
        "rank": np.repeat(ranks, len(steps) * len(OPERATIONS)), "incarnation": 1,
    }  # fmt: skip
    texts = {
        "operation": Texts(place, list(OPERATIONS)),
        "layer_name": Texts(place, list(_LAYERS)),
        "group": Texts(collective.astype(np.int32), ["", "world"]),
    }
    everywhere = {"thread": "MainThread", "clock": "host", "stream": "", "status": "ok"}
    nothing = np.zeros(n_rows, np.int32)
    return RowArrays(
        {
            name: np.full(n_rows, stated.get(name, np.nan), np.int64 if name in WHOLE else float)
            for name in NUMBERS
        },
        {name: texts.get(name) or Texts(nothing, [everywhere[name]]) for name in TEXTS},
    )


def every_within(run: Played, looks_every_s: float) -> int:
    """Return of how many steps the digest of a full host has one, to be as small as is asked.

    It is packed as monitors do, over a usual time between two looks.
    """
    ranks = np.arange(min(RANKS_PER_HOST, run.job.n_ranks))
    host = Host(run, "node0", ranks, 1, 0.0)
    host.digest(looks_every_s)
    data = packed_within(host.digest(2 * looks_every_s), int(MOST_BYTES_PER_S * looks_every_s * len(ranks)))
    return unpacked(data).every


def _sidecar(rank: int, n_ranks: int) -> dict[str, Any]:
    host, began_ns = rank // RANKS_PER_HOST, int(_BEGAN_UNIX_S * _NS)
    begun_ns = int(_NS * (_BOOTED_S + _CLOCK_OFFSET_S * host))
    measured = ClockOffset(begun_ns, -int(_NS * _CLOCK_OFFSET_S * host), 4_000, 0, "node0", "boot0", 100)
    info = RunInfo(
        file=f"timing-rank{rank}.csv", rank=rank, incarnation=1, world_size=n_ranks, labels={},
        options={"flush_interval": FLUSHED_EVERY_S, "maxsize": 100000, "ranks": None, "hang_after": 60.0},
        started_unix_ns=began_ns, updated_unix_ns=began_ns,
        clock_anchors=[ClockAnchor(begun_ns, began_ns, 170)], clock_offsets=[measured] if host else [],
        counters=Counters(0, 0, 0, 0), groups=[GroupProgress("world", n_ranks, 0, 0)],
        run_id="simulated", world="", launch_id="", host=f"node{host}", boot_id=f"boot{host}",
        pid=1000 + rank,
    )  # fmt: skip
    return dict(json.loads(info.to_json()))


def hosts_of(ranks: int) -> Sequence[npt.NDArray[np.int64]]:
    """Return the ranks of each host."""
    return np.array_split(np.arange(ranks), range(RANKS_PER_HOST, ranks, RANKS_PER_HOST))
