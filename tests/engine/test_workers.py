"""Workers of this machine: how many there are, and what is left where they are started."""

from __future__ import annotations

import signal
from contextlib import suppress
from multiprocessing.context import SpawnProcess
from typing import Any

import pytest

from timing_logger.engine import workers
from timing_logger.engine.workers import Processes, Threads


@pytest.mark.parametrize("error", [None, OSError("no process")])
def test_ctrl_c_is_held_back_from_a_worker_as_it_starts_and_from_nobody_after(
    error: OSError | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = []

    def start(self: SpawnProcess) -> None:
        blocked.append(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        if error:
            raise error

    monkeypatch.setattr(SpawnProcess, "start", start)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with suppress(OSError):
        workers._Worker().start()
    after = signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert blocked == [True]
    assert after == before


@pytest.mark.parametrize(("most", "n_items"), [(1, 5), (8, 1), (8, 0)])
def test_where_one_worker_is_enough_the_work_is_done_in_this_process(most: int, n_items: int) -> None:
    done: list[int] = []
    Processes(most).map(done.append, range(n_items))
    assert done == list(range(n_items))


def test_there_is_a_process_for_each_core_unless_it_is_said_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "usable_cores", lambda: 7)
    assert (Processes().most, Processes(3).most) == (7, 3)


def test_threads_return_what_they_found_in_the_order_of_the_items() -> None:
    with Threads(2).started(3) as threads:
        assert threads.map(lambda item: item * 2, [3, 1, 2]) == [6, 2, 4]


def test_workers_that_were_started_are_killed_and_awaited_and_others_left_alone() -> None:
    done: list[tuple[str, str]] = []

    class Worker:
        def __init__(self, name: str, pid: int | None) -> None:
            self.name, self.pid = name, pid

        def kill(self) -> None:
            done.append(("kill", self.name))

        def join(self, seconds: float) -> None:
            done.append(("join", self.name))

    context: Any = workers._Context()
    context._started = [Worker("a", 1), Worker("not started", None), Worker("b", 2)]
    context.kill()
    assert done == [("kill", "a"), ("kill", "b"), ("join", "a"), ("join", "b")]
