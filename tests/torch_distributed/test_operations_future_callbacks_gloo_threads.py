"""A process that ends while gloo's threads still let go of tensors is not aborted."""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from limits import LIMIT_S
from processes import run_job
from torch_runner import PROGRAMS

from allreduce_instrumentation.torch_distributed import _operations as _gloo_threads

PR_SET_NAME = 15  # linux/prctl.h
ENDS = 12  # each was aborted four times in ten


@pytest.mark.slow("twelve processes, to catch one abort in four; the rest by stand-ins")
@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="this system cannot have gloo's threads run last")
def test_an_exit_waits_until_gloos_threads_have_let_go_of_their_tensors(tmp_path: Path) -> None:
    job = run_job(
        [sys.executable, PROGRAMS / "ends_of_processes.py", ENDS, tmp_path],
        environment={"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        name="ends of processes",
    )
    assert job.stdout.split() == ["0"] * ENDS, job.stderr


def test_a_process_without_such_threads_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    monkeypatch.setattr(_gloo_threads, "_NAME", "no such thread")
    _gloo_threads.let_rest()
    assert waits == []


@pytest.mark.skipif(sys.platform != "linux", reason="only there are threads looked at")
def test_a_thread_whose_name_is_no_text_harms_no_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux cuts names after 15 bytes, in the middle of a letter, too."""
    named, seen = threading.Event(), threading.Event()

    def be_named() -> None:
        ctypes.CDLL(None).prctl(PR_SET_NAME, "ends in half: ü".encode())
        named.set()
        seen.wait(LIMIT_S)

    thread = threading.Thread(target=be_named)
    thread.start()
    assert named.wait(LIMIT_S)
    monkeypatch.setattr(_gloo_threads, "_NAME", "ends in half: \ufffd")
    try:
        assert set(_gloo_threads._threads()) == {str(thread.native_id)}
    finally:
        seen.set()
        thread.join(LIMIT_S)


@pytest.mark.parametrize(
    ("states", "looks"),
    [
        pytest.param([("S (sleeping)", "1")] * 2, 2, id="asleep"),
        pytest.param(
            [("R (running)", "1"), ("R (running)", "1"), *[("S (sleeping)", "2")] * 2], 4, id="running"
        ),
        pytest.param([("S (sleeping)", "1"), *[("S (sleeping)", "2")] * 2], 3, id="awake in between"),
    ],
)
def test_a_thread_is_at_rest_that_slept_all_the_time(
    states: list[Any], looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def threads() -> dict[str, tuple[str, str]]:  # a stand-in: real ones do not change when told to
        seen.append(states[len(seen)])
        return {"7": seen[-1]}

    monkeypatch.setattr(_gloo_threads, "_threads", threads)
    _gloo_threads.let_rest()
    assert len(seen) == looks


def test_a_thread_that_never_rests_does_not_hold_an_exit_up_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    # Not of the module time itself, which other threads use meanwhile.
    ticks = SimpleNamespace(monotonic=lambda: float(next(clock)), sleep=time.sleep)
    monkeypatch.setattr(_gloo_threads, "time", ticks)
    monkeypatch.setattr(_gloo_threads, "_threads", lambda: {"7": ("R (running)", "1")})
    _gloo_threads.let_rest()
    assert next(clock) <= 5
