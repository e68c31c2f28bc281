"""The thread that looks a few times a second where in the program's code the main thread is.

It asks the interpreter, so it sees what a profiler within Python sees: the main thread has just given up the
interpreter's lock, or was asked to. While C code keeps the lock, the look waits for it, and then finds the
line that called that code.
"""

from __future__ import annotations

import random
from types import FrameType

from timing_logger.recording.autograd_threads import (
    frame_of_main_thread,
    frames_of_program,
    is_library,
    short_path,
)
from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.file_beside import FileBeside
from timing_logger.recording.repeating_thread import RepeatingThread
from timing_logger.schema.cells import quoted_text
from timing_logger.schema.defaults import STACK_INTERVAL_S
from timing_logger.schema.record import NS_PER_S
from timing_logger.schema.sidecar import StackSamplesInfo
from timing_logger.schema.timing_files import HEADER, STACKS, StackSample
from timing_logger.sinks.csv import CsvSink

_AT_ONCE = 5
"""Samples that are written together: about a second's."""

_MOST_WAITING = 1000
"""Samples that wait for a file that cannot be written; those after them are lost, and counted."""


class StackSampler:
    """Writes where the main thread is, about once a second for the samples of that second.

    No error reaches the program.

    Args:
        file: where the lines go.
        interval_s: seconds between two samples, on average.
    """

    def __init__(self, file: FileBeside, *, interval_s: float = STACK_INTERVAL_S) -> None:
        self._file = file
        self._waiting: list[bytes] = []
        self._lost = 0
        own = random.Random()  # the program's random numbers stay what they are
        self._thread = RepeatingThread(
            "timing-logger-stacks", "stack samples", begin=lambda: None, repeat=self._sample,
            end=self._finish, interval_s=lambda: interval_s * own.uniform(0.5, 1.5),
        )  # fmt: skip
        self._thread.start()

    def info(self) -> StackSamplesInfo:
        """Return what the sidecar says of the samples; from any thread."""
        thread = self._thread
        return StackSamplesInfo(
            self._file.name, self._file.lines, self._lost, thread.cpu_ns, thread.last_error
        )

    def close(self, timeout_s: float) -> None:
        """Write the rest, and end the thread; wait no longer than ``timeout_s`` seconds for it."""
        self._thread.close(timeout_s)

    # -- the thread ---------------------------------------------------------------------------------

    def _sample(self) -> None:
        frame = frame_of_main_thread()
        line = _line(perf_counter_ns(), frame)
        del frame  # which would keep alive what is in its variables
        if line and len(self._waiting) < _MOST_WAITING:
            self._waiting.append(line)
        else:
            self._lost += bool(line)
        if len(self._waiting) >= _AT_ONCE:
            self._write()

    def _write(self) -> None:
        lines = self._waiting
        for message in self._file.append(b"".join(lines), len(lines)):
            self._thread.report(f"the file of stack samples was changed: {message}")
        self._waiting = []

    def _finish(self) -> None:
        if self._waiting:
            self._thread.harmless(self._write)
        self._lost += len(self._waiting)
        self._thread.harmless(self._file.close)


def start_sampling(timing_file: CsvSink, started_unix_ns: int, mode: int) -> StackSampler:
    """Write where the main thread is from now on, into a file beside the timing file.

    Args:
        timing_file: the timing file.
        started_unix_ns: the start time that its sidecar states.
        mode: permissions of the file, from which the process's umask is subtracted.
    """
    return StackSampler(FileBeside(timing_file, STACKS, HEADER, started_unix_ns=started_unix_ns, mode=mode))


def _line(now_ns: int, frame: FrameType | None) -> bytes:
    """Return the line of a sample; none if the main thread has no frame outside of these packages."""
    sample = sample_of(now_ns, frame)
    if sample is None:
        return b""
    texts = map(quoted_text, (sample.function, sample.file, str(sample.line), sample.library_call))
    return (",".join([f"{sample.counter:.6f}", *texts]) + "\n").encode(errors="backslashreplace")


def sample_of(now_ns: int, frame: FrameType | None) -> StackSample | None:
    """Return where a thread is, whose innermost frame is ``frame``."""
    called: list[FrameType] = []
    for one in frames_of_program(frame):
        if not is_library(one.f_code.co_filename):
            call = f"{_name(called[-1])} ({_file(called[-1])})" if called else ""
            return _of(now_ns, one, call)
        called.append(one)
    return _of(now_ns, called[0], "") if called else None


def _of(now_ns: int, frame: FrameType, call: str) -> StackSample:
    return StackSample(now_ns / NS_PER_S, _name(frame), _file(frame), frame.f_lineno or 0, call)


def _name(frame: FrameType) -> str:
    # From Python 3.11 on it has the name of its class, too.
    return str(getattr(frame.f_code, "co_qualname", frame.f_code.co_name))


def _file(frame: FrameType) -> str:
    return short_path(frame.f_code.co_filename)
