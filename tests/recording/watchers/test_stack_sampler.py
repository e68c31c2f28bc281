"""A sample names the line of the program's own code that the main thread is in; sampling troubles nobody."""

from __future__ import annotations

import json
import logging
import os
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
from conditions import wait_for
from limits import LIMIT_S
from processes import run_python

from timing_logger import TimingLogger, read_stack_samples
from timing_logger.recording.file_beside import FileBeside
from timing_logger.recording.watchers.stack_sampler import StackSampler, _line, sample_of
from timing_logger.schema.timing_files import HEADER, STACKS
from timing_logger.sinks.csv import CsvSink


def frame_here() -> FrameType:
    return sys._getframe()


class Loader:
    def load(self, ask: Callable[[], FrameType]) -> FrameType:
        return ask()


@pytest.fixture
def file(tmp_path: Path) -> FileBeside:
    return FileBeside(CsvSink(tmp_path, 0), STACKS, HEADER, started_unix_ns=1, mode=0o644)


def test_a_sample_is_of_the_innermost_function_of_the_program(file: FileBeside) -> None:
    frame = frame_here()
    sample = sample_of(1_500_000_000, frame)
    assert sample is not None
    assert (sample.counter, sample.function, sample.library_call) == (1.5, "frame_here", "")
    assert (sample.file, sample.line) == ("watchers/test_stack_sampler.py", frame.f_lineno)


def test_what_runs_in_a_library_counts_for_the_line_that_called_it() -> None:
    found: list[FrameType] = []

    class Asking(json.JSONEncoder):
        def default(self, o: object) -> object:
            frame = sys._getframe().f_back  # of the library
            assert frame is not None
            found.append(frame)
            return 0

    json.dumps({"a": object()}, cls=Asking)
    sample = sample_of(0, found[0])
    assert sample is not None
    assert sample.function.endswith("test_what_runs_in_a_library_counts_for_the_line_that_called_it")
    assert sample.library_call == "dumps (json/__init__.py)"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code knows no class before")
def test_a_method_has_the_name_of_its_class() -> None:
    caller = Loader().load(frame_here).f_back
    sample = sample_of(0, caller)
    assert sample is not None
    assert sample.function == "Loader.load"


def test_where_there_is_only_library_code_that_is_told(file: FileBeside) -> None:
    program = """
import json, sys
from timing_logger.recording.watchers.stack_sampler import sample_of
class Frame:
    f_lineno, f_globals = 7, {}
    def __init__(self, code, back): self.f_code, self.f_back = code, back
print(sample_of(0, Frame(json.dumps.__code__, Frame(json.loads.__code__, None)))[1:])
print(sample_of(0, None))
"""
    done = run_python(program)
    assert done.stdout.splitlines() == ["('dumps', 'json/__init__.py', 7, '')", "None"], done.stderr


def test_it_writes_what_it_has_when_it_is_closed(file: FileBeside, tmp_path: Path) -> None:
    sampler = StackSampler(file, interval_s=0.005)
    wait_for(lambda: bool(sampler._waiting))
    sampler.close(LIMIT_S)
    rows = (tmp_path / "stacks-rank0.csv").read_text().splitlines()
    assert rows[0] == HEADER.strip()
    assert len(rows) - 1 == sampler.info().lines > 0
    assert (sampler.info().lost, sampler.info().last_error) == (0, "")
    sampler.close(LIMIT_S)


def test_while_the_disk_is_full_samples_wait_and_it_is_said_once(
    file: FileBeside, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write, failed = FileBeside.append, []

    def full_at_first(self: FileBeside, lines: bytes, n: int = 1) -> list[str]:
        if len(failed) < 3:
            failed.append(n)
            raise OSError(28, "No space left on device")
        return write(self, lines, n)

    monkeypatch.setattr(FileBeside, "append", full_at_first)
    with caplog.at_level(logging.WARNING, "timing_logger"):
        sampler = StackSampler(file, interval_s=0.005)
        wait_for(lambda: sampler.info().lines > 0)
        sampler.close(LIMIT_S)
    assert sampler.info().lines > failed[-1] >= 5
    assert (sampler.info().lost, len(caplog.records)) == (0, 1)
    assert "stack samples could not be written" in sampler.info().last_error


def test_what_could_never_be_written_is_counted(file: FileBeside, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: FileBeside, lines: bytes, n: int = 1) -> list[str]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FileBeside, "append", full)
    sampler = StackSampler(file, interval_s=0.005)
    wait_for(lambda: len(sampler._waiting) >= 5)
    sampler.close(LIMIT_S)
    assert sampler.info().lines == 0
    assert sampler.info().lost >= 5


def test_the_random_numbers_of_the_program_stay_what_they_are(file: FileBeside) -> None:
    random.seed(7)
    expected = [random.random() for _ in range(3)]
    random.seed(7)
    sampler = StackSampler(file, interval_s=0.002)
    wait_for(lambda: sampler.info().lines > 0)
    sampler.close(LIMIT_S)
    assert [random.random() for _ in range(3)] == expected


def test_names_that_are_no_plain_text_come_back_as_they_are(tmp_path: Path) -> None:
    strange = tmp_path / 'a,"b"\n=c'
    strange.mkdir()
    namespace: dict[str, Callable[[], FrameType]] = {}
    code = compile("import sys\ndef f(): return sys._getframe()", str(strange / "pro,gram.py"), "exec")
    exec(code, namespace)
    file = FileBeside(CsvSink(tmp_path / "logs", 0), STACKS, HEADER, started_unix_ns=1, mode=0o644)
    file.append(_line(10**9, namespace["f"]()))
    file.close()
    (row,) = read_stack_samples(tmp_path / "logs").to_dict("records")
    assert (row["file"], row["line"], row["function"]) == ('a,"b"\n=c/pro,gram.py', 2, "f")


def test_a_logger_that_was_asked_to_says_in_its_sidecar_what_became_of_them(tmp_path: Path) -> None:
    with TimingLogger(0, tmp_path, stack_samples=True) as logger:
        sampler = logger._samplers[0]
        assert isinstance(sampler, StackSampler)
        wait_for(lambda: bool(sampler._waiting))
    stated = json.loads((tmp_path / "timing-rank0.meta.json").read_text())["stack_samples"]
    assert stated["file"] == "stacks-rank0.csv"
    assert stated["lines"] == len(read_stack_samples(tmp_path)) >= 1


@pytest.mark.parametrize(
    "options", [{}, {"enabled": False, "stack_samples": True}, {"ranks": [1], "stack_samples": True}]
)
def test_a_logger_that_was_not_asked_or_is_off_writes_none(tmp_path: Path, options: dict[str, bool]) -> None:
    with TimingLogger(0, tmp_path, **options) as logger:  # type: ignore[arg-type]
        assert not logger._samplers
    assert not list(tmp_path.glob("stacks-*"))


def test_a_forked_child_samples_nothing_into_the_file_of_its_parent(tmp_path: Path) -> None:
    logger = TimingLogger(0, tmp_path, stack_samples=True)
    child = os.fork()
    if not child:
        names = [thread.name for thread in threading.enumerate()]
        os._exit(bool(logger._samplers) or any("timing-logger" in name for name in names))
    assert os.waitpid(child, 0)[1] == 0
    logger.close()
