"""Programs that are no training: rounds of varying length, coupled codes, a master and its workers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from verdict_accuracy.rank_program import RankProgram
from verdict_accuracy.timeline import POSTING_MS

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

TASK_MS = 25.0
ANSWER_MS = 0.1


def rounds(run: RankProgram) -> None:
    """a step is 20 ms of work, 3 to 7 times 6 ms of work and a small ALLREDUCE, and an ALLGATHER"""
    for _ in run.steps():
        run.work("SET_UP", 20.0)
        for _iteration in range(run.rng.integers(3, 8)):
            run.work("SOLVE", 6.0)
            run.together("ALLREDUCE", 0.3)
        run.together("ALLGATHER", 1.0)


def rooted(run: RankProgram) -> None:
    """a step is a BCAST from rank 0, 40 ms of work, a REDUCE to rank 0, 40 ms of work, and a GATHER to it"""
    for _ in run.steps():
        run.broadcast(run.everybody, "world", 0.5)
        run.work("COMPUTE", 40.0)
        run.to_root("REDUCE", 1.0)
        run.work("COMPUTE", 40.0)
        run.to_root("GATHER", 1.0)


# -- coupled codes -------------------------------------------------------------------------------


def halves(n_ranks: int) -> Sequence[Integers]:
    return list(np.arange(n_ranks).reshape(2, -1))


def coupled(run: RankProgram) -> None:
    """two halves that each reduce four times a step; then their first ranks exchange messages, and BCAST"""
    codes, names = halves(run.n_ranks), ["ocean", "air"]
    first, second = (int(code[0]) for code in codes)
    for _ in run.steps():
        for _part in range(4):
            run.work("COMPUTE", 10.0)
            run.collective("ALLREDUCE", 0.3, codes, names, 64)
        run.message(first, second, 0.5)
        run.message(second, first, 0.5)
        for code, name in zip(codes, names, strict=True):
            run.broadcast(code, name, 0.3)


# -- a master and its workers --------------------------------------------------------------------


def farm(run: RankProgram) -> None:
    """rank 0 gives tasks of 25 ms, a step's worth for each worker, to whoever asks; at the end a BARRIER"""
    next(run.steps())
    n_tasks = run.n_steps * (run.n_ranks - 1)
    tasks_ms = TASK_MS * np.exp(run.rng.normal(0.0, 0.1, n_tasks))
    for variant in (0, 1):
        _give_out(run, variant, tasks_ms)
    run.together("BARRIER", 0.1)


def _give_out(run: RankProgram, variant: int, tasks_ms: Floats) -> None:
    """Have whoever asks first do the next task, until none is left, in one variant of the run."""
    left, now_ms = iter(tasks_ms), run.now_ms[variant]
    done = dict.fromkeys(range(1, run.n_ranks), 0)
    while done:
        worker = min(done, key=now_ms.__getitem__)
        _ask(run, variant, worker)
        task_ms = next(left, None)
        if task_ms is None:
            del done[worker]
        else:
            now_ms[worker] += task_ms * run.conditions.factor[variant, done[worker] % run.n_steps, worker]
            done[worker] += 1


def _ask(run: RankProgram, variant: int, worker: int) -> None:
    """Have a worker ask the master for a task, as soon as the master has answered those before it."""
    asks_ms, ready_ms = run.now_ms[variant, [worker, 0]]
    heard_ms = max(asks_ms, ready_ms) + ANSWER_MS
    answered_ms = heard_ms + ANSWER_MS
    run.now_ms[variant, [worker, 0]] = answered_ms + ANSWER_MS, answered_ms
    if variant == 0:
        _row(run, "SEND", worker, 0, asks_ms, asks_ms + POSTING_MS)
        _row(run, "RECV", 0, worker, ready_ms, heard_ms)
        _row(run, "SEND", 0, worker, heard_ms, answered_ms)
        _row(run, "RECV", worker, 0, asks_ms + POSTING_MS, answered_ms + ANSWER_MS)


def _row(run: RankProgram, operation: str, rank: int, peer: int, begin_ms: float, end_ms: float) -> None:
    run.rows.add(
        operation, np.array([rank]), np.array([begin_ms]), np.array([end_ms]), groups=["world"],
        peers=np.array([peer]), group_size=run.n_ranks, size_bytes=1000,
    )  # fmt: skip
