"""Data-parallel training of several kinds: with saves, evaluation, micro-steps, ranks that come and go."""

from __future__ import annotations

import numpy as np

from verdict_accuracy.rank_program import RankProgram

EVALUATES_EVERY = 50
SYNCHRONISES_EVERY = 40
MAX_MICRO_STEPS = 8
RESTART_MS = 3000.0


def training(run: RankProgram) -> None:
    """DATA, FORWARD, BACKWARD, two blocking ALLREDUCE of all, OPTIMIZER; ranks may save after it"""
    for _ in run.steps():
        _one_step(run)
        run.save()


def with_evaluation(run: RankProgram) -> None:
    """like training; in one of 50 steps all ranks evaluate for 1.5 s"""
    for step in run.steps():
        _one_step(run)
        if step % EVALUATES_EVERY == EVALUATES_EVERY // 2:
            run.work("EVAL", 1500.0)


def _one_step(run: RankProgram) -> None:
    run.work("DATA", 5.0)
    run.work("FORWARD", 30.0)
    run.work("BACKWARD", 50.0)
    for _bucket in range(2):
        run.together("ALLREDUCE", 5.0)
    run.work("OPTIMIZER", 5.0)


def short_steps(run: RankProgram) -> None:
    """COMPUTE of 4 ms and an ALLREDUCE of 0.5 ms"""
    for _ in run.steps():
        run.work("COMPUTE", 4.0)
        run.together("ALLREDUCE", 0.5)


def partly_timed(run: RankProgram) -> None:
    """like training, but a step begins with 10 ms of work that is not timed"""
    for _ in run.steps():
        run.work("", 10.0)
        run.work("FORWARD", 30.0)
        run.work("BACKWARD", 50.0)
        run.together("ALLREDUCE", 5.0)


def accumulating(run: RankProgram) -> None:
    """1 to 8 micro-steps of DATA, FORWARD and BACKWARD, as many on all ranks; then ALLREDUCE and OPTIMIZER"""
    for _ in run.steps():
        for _micro_step in range(run.rng.integers(1, MAX_MICRO_STEPS + 1)):
            run.work("DATA", 1.0)
            run.work("FORWARD", 8.0)
            run.work("BACKWARD", 16.0)
        run.together("ALLREDUCE", 5.0)
        run.work("OPTIMIZER", 3.0)


def accumulating_unevenly(run: RankProgram) -> None:
    """the same, but each rank has 3 to 5 micro-steps in a step, by chance, as with batches by length"""
    for _ in run.steps():
        micro_steps = run.rng.integers(3, 6, run.n_ranks)
        for done in range(int(micro_steps.max())):
            busy = np.flatnonzero(micro_steps > done)
            run.work("FORWARD", 8.0, busy)
            run.work("BACKWARD", 16.0, busy)
        run.together("ALLREDUCE", 5.0)
        run.work("OPTIMIZER", 3.0)


def local_sgd(run: RankProgram) -> None:
    """steps of 33 ms that all ranks take by themselves; every 40th ends with an ALLREDUCE"""
    for step in run.steps():
        run.work("DATA", 1.5)
        run.work("FORWARD", 10.0)
        run.work("BACKWARD", 20.0)
        run.work("OPTIMIZER", 2.0)
        if step % SYNCHRONISES_EVERY == SYNCHRONISES_EVERY - 1:
            run.together("ALLREDUCE", 20.0)


def ranks_join(run: RankProgram) -> None:
    """half of the ranks begin; in the middle of the run the others join, which takes 3 s"""
    _elastic(run, few_first=True)


def ranks_leave(run: RankProgram) -> None:
    """in the middle of the run half of the ranks leave, which takes the others 3 s"""
    _elastic(run, few_first=False)


def _elastic(run: RankProgram, *, few_first: bool) -> None:
    few, middle = np.arange(run.n_ranks // 2), run.n_steps // 2
    for step in run.steps():
        if step == middle:
            run.start_over(RESTART_MS)
        present = few if (step < middle) == few_first else run.everybody
        run.work("DATA", 2.0, present)
        run.work("FORWARD", 26.0, present)
        run.work("BACKWARD", 54.0, present)
        run.together("ALLREDUCE", 5.0, present, f"dp{len(present)}")
        run.work("OPTIMIZER", 4.0, present)


def overlapped(run: RankProgram) -> None:
    """like DDP: BACKWARD issues an IALLREDUCE for each of ten buckets, and at its end has a WAIT for each"""
    _in_buckets(run, 10)


def one_bucket(run: RankProgram) -> None:
    """the same with one bucket"""
    _in_buckets(run, 1)


def _in_buckets(run: RankProgram, n_buckets: int) -> None:
    for _ in run.steps():
        run.work("DATA", 5.0)
        run.work("FORWARD", 30.0)
        with run.block("BACKWARD"):
            pending = []
            for _bucket in range(n_buckets):
                run.work("", 50.0 / n_buckets)
                pending.append(run.issue("IALLREDUCE", 20.0 / n_buckets))
            for one in pending:
                run.wait(one)
        run.work("OPTIMIZER", 5.0)


def on_devices(run: RankProgram) -> None:
    """rows on the device's clock; BACKWARD lasts until its two ALLREDUCE are done, and so contains waits"""
    for _ in run.steps():
        run.work("DATA", 3.0)
        with run.device():
            run.work("FORWARD", 30.0)
            with run.block("BACKWARD"):
                for _bucket in range(2):
                    run.work("", 25.0)
                    run.together("ALLREDUCE", 5.0)
            run.work("OPTIMIZER", 5.0)
