"""What a sampler of stacks keeps, writes and loses; the test takes each sample itself, and no thread does."""

from __future__ import annotations

import sys
import threading
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from timing_logger.recording.watchers import stack_sampler as module
from timing_logger.recording.watchers.stack_sampler import StackSampler, sample_of


class File:
    """Takes lines unless it is ``full``; ``found`` is what was done to it from outside."""

    name = "stacks-rank0.csv"

    def __init__(self) -> None:
        self.written: list[int] = []
        self.text = b""
        self.full = False
        self.found: list[str] = []
        self.closed = 0

    @property
    def lines(self) -> int:
        return sum(self.written)

    def append(self, lines: bytes, n: int) -> list[str]:
        if self.full:
            raise OSError(28, "No space left on device")
        self.text += lines
        self.written.append(n)
        return self.found

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def file() -> File:
    return File()


@pytest.fixture
def sampler(file: File, monkeypatch: pytest.MonkeyPatch) -> StackSampler:
    """One whose main thread is in a function of the program."""
    monkeypatch.setattr(threading.Thread, "start", lambda thread: None)
    is_in(monkeypatch, sys._getframe())
    found: Any = StackSampler(file, interval_s=2.0)  # type: ignore[arg-type]
    return found  # type: ignore[no-any-return]


def is_in(monkeypatch: pytest.MonkeyPatch, frame: FrameType | None) -> None:
    monkeypatch.setattr(module, "frame_of_main_thread", lambda: frame)


def sample(sampler: StackSampler, n: int) -> None:
    for _ in range(n):
        sampler._thread.harmless(sampler._sample)


def test_five_samples_are_written_together(sampler: StackSampler, file: File) -> None:
    sample(sampler, 4)
    assert file.written == []
    sample(sampler, 6)
    assert file.written == [5, 5]
    assert file.text.count(b"\n") == 10
    info = sampler.info()
    assert (info.file, info.lines, info.lost, info.last_error) == ("stacks-rank0.csv", 10, 0, "")
    assert info.cpu_ns > 0


def test_a_main_thread_without_a_frame_has_no_sample_and_loses_none(
    sampler: StackSampler, file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_in(monkeypatch, None)
    sample(sampler, 5)
    sampler._finish()
    assert (file.written, file.closed, sampler.info().lost) == ([], 1, 0)


def test_what_cannot_be_written_waits_up_to_a_thousand_samples_and_the_rest_is_lost(
    sampler: StackSampler, file: File
) -> None:
    file.full = True
    sample(sampler, 1003)
    assert sampler.info().lost == 3
    assert "stack samples could not be written: OSError(28" in sampler.info().last_error
    file.full = False
    sample(sampler, 1)
    assert file.written == [1000]
    assert sampler.info().lost == 4
    sample(sampler, 5)
    assert file.written == [1000, 5]


@pytest.mark.parametrize("full", [False, True])
def test_at_the_end_the_rest_is_written_or_lost_and_the_file_closed(
    sampler: StackSampler, file: File, full: bool
) -> None:
    sample(sampler, 3)
    file.full = full
    sampler._finish()
    assert (file.lines, sampler.info().lost) == ((0, 3) if full else (3, 0))
    assert file.closed == 1


def test_what_was_done_to_the_file_is_told(sampler: StackSampler, file: File) -> None:
    file.found = ["it was cut"]
    sample(sampler, 5)
    assert sampler.info().last_error == "the file of stack samples was changed: it was cut"
    assert file.written == [5]


def test_samples_are_half_to_one_and_a_half_of_the_interval_apart(sampler: StackSampler) -> None:
    waits = [sampler._thread._interval_s() for _ in range(300)]
    assert 1.0 <= min(waits) < 1.2
    assert 2.8 < max(waits) <= 3.0


def test_the_end_of_a_sampler_is_that_of_its_thread(
    sampler: StackSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(sampler._thread, "close", waited.append)
    sampler.close(0.5)
    assert waited == [0.5]


# -- where a thread is -----------------------------------------------------------------------------------


def frames(monkeypatch: pytest.MonkeyPatch, *calls: tuple[str, str]) -> FrameType:
    """A stack of functions in files, the innermost first."""
    found: list[Any] = [
        SimpleNamespace(f_code=SimpleNamespace(co_name=name, co_filename=file), f_lineno=at or None)
        for at, (name, file) in enumerate(calls)
    ]
    monkeypatch.setattr(module, "frames_of_program", lambda frame: iter(found))
    monkeypatch.setattr(module, "is_library", lambda file: file.startswith("/lib/"))
    innermost: FrameType = found[0] if found else None
    return innermost


def test_of_library_calls_the_outermost_is_told_the_one_that_the_program_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = frames(monkeypatch, ("read", "/lib/io.py"), ("load", "/lib/json.py"), ("train", "/my/train.py"))
    assert sample_of(2_500_000_000, frame) == (2.5, "train", "my/train.py", 2, "load (lib/json.py)")


def test_where_there_is_only_library_code_the_innermost_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = frames(monkeypatch, ("read", "/lib/io.py"), ("load", "/lib/json.py"))
    assert sample_of(0, frame) == (0.0, "read", "lib/io.py", 0, "")


def test_a_thread_without_a_frame_is_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sample_of(0, frames(monkeypatch)) is None


def test_a_line_is_one_line_whatever_its_texts_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = frames(monkeypatch, ("<lambda>,\n\udcff", '/my/a"b.py'))
    assert module._line(1_234_567_891, frame) == b'1.234568,"<lambda>,\\u000a\\udcff","my/a""b.py",0,\n'
