"""A scripted stand-in for an accelerator, because the machines that run these tests have none.

It does not simulate one: a stream is a list of marks, and the test decides when the stream passes them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.device import accelerator, devices


class ScriptedStream(NamedTuple):
    """A stand-in for ``torch.Stream``: its number and its device; all streams are one queue here."""

    stream_id: int
    device: Any = SimpleNamespace(index=0)


class ScriptedEvent:
    """An event that passes at once in the clock's own stream, and in the training's when the test says so.

    Attributes:
        at_ns: when it was passed, on the device's clock; None if it was not.
    """

    def __init__(self, device: ScriptedAccelerator) -> None:
        self._device = device
        self.at_ns: int | None = 0  # like CUDA's: an event never recorded counts as passed

    def record(self, stream: Any = None) -> None:
        self._device.happens("record")
        if stream is None and self._device.index != 0:
            raise AssertionError("marked in a stream of another device")
        if stream == "own":
            self.at_ns = None if self._device.own_stream_busy else self._device.now_ns()
            if self.at_ns is None:
                self._device.own_queue.append(self)
        else:
            with self._device.lock:
                self.at_ns = None
                self._device.queue.append(self)
                if not self._device.busy:
                    self._device.get_on()

    def query(self) -> bool:
        self._device.happens("query")
        passed = self.at_ns is not None
        if self._device.gets_on_while_asked:
            self._device.get_on()
        return passed

    def synchronize(self) -> None:
        self._device.happens("synchronize")
        self._device.get_on()

    def elapsed_time(self, other: ScriptedEvent) -> float:
        self._device.happens("elapsed_time")
        assert self.at_ns is not None
        assert other.at_ns is not None
        return (other.at_ns - self.at_ns) / 1e6


class ScriptedAccelerator:
    """One device, with one stream for the training.

    Attributes:
        busy: whether the stream passes no marks until ``get_on()`` is called.
        work_ns: how long the device works between two marks.
        ahead_ns: how far the device's clock is ahead of the host's, so that mixing them up is noticed.
        capturing: whether the current stream is being captured.
        harmless: whether events can be queried during a capture.
        index: number of the current device; the events belong to device 0.
        stream_id: number of the current stream.
        gets_on_while_asked: whether the stream passes its marks right after an event was queried.
        own_stream_captured: whether the clock's own stream is being captured by another user of it.
        own_stream_busy: whether marks in the clock's own stream do not pass either.
        asks: all calls that the device got, each with the thread's mode at that time.
        fail_with: raised by every call about an event from now on; None for no failure.
        looks_fail_with: raised when a stream is examined; None for no failure.
        streams_fail_with: raised when a stream is made; None for no failure.
    """

    kind = "scripted"

    def __init__(self) -> None:
        self.busy = False
        self.work_ns = 1_000_000
        self.ahead_ns = 5_000_000_000
        self.capturing = False
        self.harmless = True
        self.index = 0
        self.stream_id = 0
        self.gets_on_while_asked = False
        self.own_stream_busy = False
        self.own_stream_captured = False
        self.own_queue: list[ScriptedEvent] = []
        self.failed = ""
        self.fail_with: BaseException | None = None
        self.looks_fail_with: Exception | None = None
        self.streams_fail_with: Exception | None = None
        self.asks: list[str] = []
        self.queue: list[ScriptedEvent] = []
        self.made = 0
        self.lock = threading.RLock()
        self._passed_ns = 0
        self._relaxed = 0

    def happens(self, what: str) -> None:
        self.asks.append(what + (" beside captures" if self._relaxed else ""))
        if self.fail_with is not None:
            raise self.fail_with

    def now_ns(self) -> int:
        return perf_counter_ns() + self.ahead_ns

    def get_on(self) -> None:
        """Have the stream pass every mark that waits in it."""
        with self.lock:
            while self.queue:
                self.pass_one()

    def pass_one(self) -> None:
        """Have the stream pass the next mark."""
        self._passed_ns = self._passed_ns + self.work_ns if self._passed_ns else self.now_ns()
        self.queue.pop(0).at_ns = self._passed_ns

    def pass_own(self) -> None:
        """Have the clock's own stream pass every mark that waits in it."""
        while self.own_queue:
            self.own_queue.pop(0).at_ns = self.now_ns()

    # -- as timing_logger.recording.device.accelerator.Accelerator ----------------------------------

    def current_index(self) -> int:
        return self.index

    def has_context(self, index: int) -> bool:
        return True

    def current_stream(self, index: int) -> ScriptedStream:
        return ScriptedStream(self.stream_id, SimpleNamespace(index=index))

    def stream_of_handle(self, handle: int, index: int) -> ScriptedStream:
        return ScriptedStream(handle, SimpleNamespace(index=index))

    def is_capturing(self) -> bool:
        if self.looks_fail_with is not None:
            raise self.looks_fail_with
        return self.capturing

    def look_at(self, stream: Any) -> tuple[bool, int]:
        if stream == "own":
            return self.own_stream_captured, 0
        return self.is_capturing(), stream.device.index

    def new_event(self) -> ScriptedEvent:
        self.made += 1
        return ScriptedEvent(self)

    def new_stream(self, index: int) -> Any:
        if self.streams_fail_with is not None:
            raise self.streams_fail_with
        return "own"

    def mark(self, event: ScriptedEvent, stream: Any, index: int) -> None:
        assert index == 0
        event.record("training" if stream is None else stream)

    @contextmanager
    def current(self, stream: Any, index: int) -> Iterator[None]:
        self.asks.append("enter a stream")
        yield
        self.asks.append("leave it")

    def is_failure(self, error: Exception) -> bool:
        return "CUDA error" in str(error)

    @contextmanager
    def asking(self, index: int) -> Iterator[bool]:
        self._relaxed += self.harmless
        try:
            yield self.harmless
        finally:
            self._relaxed -= self.harmless


@pytest.fixture
def scripted_device(monkeypatch: pytest.MonkeyPatch) -> ScriptedAccelerator:
    """A scripted accelerator in the place of this process's, for one test."""
    device = ScriptedAccelerator()
    monkeypatch.setattr(accelerator, "find_accelerator", lambda: device)
    monkeypatch.setattr(devices, "_in_use", {})
    return device
