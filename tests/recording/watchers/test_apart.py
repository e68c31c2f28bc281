"""What may hang is asked in a thread of its own, and costs no other counter its place in a line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from conditions import wait_for
from limits import LIMIT_S
from processes import run_python

from timing_logger.recording.watchers import apart
from timing_logger.recording.watchers.apart import Apart, UnavailableError


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "PATIENCE_S", LIMIT_S)


@pytest.fixture
def new() -> Iterator[Callable[..., Apart]]:
    made: list[Apart] = []

    def make(find: Callable[[], Callable[[], Mapping[str, float]]]) -> Apart:
        made.append(Apart(["gpu_power_w"], find))
        return made[-1]

    yield make
    for one in made:
        one.close()


def asked(source: Apart) -> Mapping[str, float]:
    assert source.paths() == ()
    return source.values(())


def test_each_reading_has_an_answer_of_its_own_from_another_thread(new: Callable[..., Apart]) -> None:
    threads: list[int] = []

    def read() -> Mapping[str, float]:
        threads.append(threading.get_ident())
        return {"gpu_power_w": len(threads)}

    source = new(lambda: read)
    assert [asked(source), asked(source)] == [{"gpu_power_w": 1}, {"gpu_power_w": 2}]
    assert len(set(threads)) == 1
    assert threading.get_ident() not in threads


def test_while_one_reading_hangs_nothing_is_known_and_no_other_is_begun(
    new: Callable[..., Apart], monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, released, readings = threading.Lock(), threading.Event(), 0
    hangs.acquire()

    def read() -> Mapping[str, float]:
        nonlocal readings
        readings += 1
        with hangs:
            released.set()
            return {"gpu_power_w": readings}

    source = new(lambda: read)
    monkeypatch.setattr(apart, "PATIENCE_S", 0.01)
    assert [asked(source), asked(source), asked(source)] == [{}, {}, {}]
    assert readings == 1
    hangs.release()
    assert released.wait(LIMIT_S)
    monkeypatch.setattr(apart, "PATIENCE_S", LIMIT_S)
    assert wait_for(lambda: asked(source)) == {"gpu_power_w": 2}  # and not the answer that came too late


def test_before_there_is_something_to_read_there_is_no_thread() -> None:
    is_in_use = False
    source = Apart(["gpu_power_w"], lambda: lambda: {"gpu_power_w": 1}, is_to_begin=lambda: is_in_use)
    assert (asked(source), source._thread) == ({}, None)
    is_in_use = True
    assert asked(source) == {"gpu_power_w": 1}
    source.close()


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (UnavailableError("no driver"), "no driver"),
        (OSError(5, "broken"), "OSError(5, 'broken')"),
    ],
)
def test_what_cannot_be_asked_says_why(new: Callable[..., Apart], error: Exception, why: str) -> None:
    def find() -> Callable[[], Mapping[str, float]]:
        raise error

    source = new(find)
    assert asked(source) == {}
    assert source.why == why


def test_an_error_of_a_reading_ends_nothing(new: Callable[..., Apart]) -> None:
    answers = iter([None, {"gpu_power_w": 5}])

    def read() -> Mapping[str, float]:
        answer = next(answers)
        if answer is None:
            raise RuntimeError("GPU is lost")
        return answer

    source = new(lambda: read)
    assert asked(source) == {}
    assert "GPU is lost" in source.why
    assert asked(source) == {"gpu_power_w": 5}


def test_why_something_is_missing_depends_on_whether_it_was_asked(new: Callable[..., Apart]) -> None:
    source = new(lambda: dict)
    assert source.why == "what states it was not in use, or has not answered"
    assert asked(source) == {}
    assert source.why == "what was asked does not state it"


def test_the_processor_time_of_each_reading_is_added_up(
    new: Callable[..., Apart], monkeypatch: pytest.MonkeyPatch
) -> None:
    spent_ns = 0

    def read() -> Mapping[str, float]:
        nonlocal spent_ns
        spent_ns += 300
        return {}

    monkeypatch.setattr(apart.time, "thread_time_ns", lambda: 1000 + spent_ns)
    source = new(lambda: read)
    asked(source)
    asked(source)
    source.close()
    assert source._thread is not None
    source._thread.join(LIMIT_S)
    assert not source._thread.is_alive()
    assert source.cpu_ns == 600


HANGING = """
import sys, threading
from timing_logger import TimingLogger
from functools import partial
from timing_logger.recording.watchers import host_sampler as start
from timing_logger.recording.watchers.apart import Apart
start.HostSampler = partial(start.HostSampler, interval_s=0.05)
at_work = threading.Event()
def read():
    at_work.set()
    threading.Event().wait()  # for ever
hanging = Apart(["gpu_power_w"], lambda: read)
all_others = start.sources
start.sources = lambda: [hanging, *all_others()]
logger = TimingLogger(0, sys.argv[1], host_counters=True)
with logger.operation("WORK"):
    at_work.wait()
while logger._samplers[0].info().lines < 2:
    pass
logger.close()
print("closed", logger.stats.written)
"""


@pytest.mark.slow("a device that hangs; what runs apart is quick")
def test_a_device_that_never_answers_costs_no_row_and_does_not_keep_the_process_from_ending(
    tmp_path: Path,
) -> None:
    done = run_python(HANGING, tmp_path)
    assert (done.returncode, done.stdout) == (0, "closed 1\n"), done.stderr
    header, *lines = (tmp_path / "host-rank0.csv").read_text().splitlines()
    at = header.split(",").index("gpu_power_w")
    assert {line.split(",")[at] for line in lines} == {""}
    assert len(lines) >= 2
