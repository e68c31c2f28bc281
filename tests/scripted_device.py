"""A scripted stand-in for an accelerator, because the machines that run these tests have none.

Not a simulation of one: a stream is a list of marks, and the test says when it gets on.
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
    """What ``torch.Stream`` says of itself: its number, and whose it is. All of them are one queue here."""

    stream_id: int
    device: Any = SimpleNamespace(index=0)


class ScriptedEvent:
    """Passes at once on the clock's own streams; on the training's when the script says so."""

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
        busy: whether the stream stands still, until ``get_on()``.
        work_ns: how long the device works between two marks.
        ahead_ns: how far its clock is ahead of the host's: nobody may take one for the other.
        capturing: whether the current stream is being captured.
        harmless: whether events can be asked about beside a capture.
        index: number of the current device; the events belong to device 0.
        stream_id: number of the current stream.
        gets_on_while_asked: whether the stream goes on just after a question about it was answered.
        own_stream_captured: whether somebody who was given that same stream captures it.
        own_stream_busy: whether marks of the clock's own stream do not pass either.
        asks: every call that the device got, with the thread's mode in force.
        fail_with: raised by every call about an event from now on.
        looks_fail_with: raised by looking at a stream.
        streams_fail_with: raised by making one.
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
        """The stream passes every mark that waits in it."""
        with self.lock:
            while self.queue:
                self.pass_one()

    def pass_one(self) -> None:
        """The stream passes the next mark."""
        self._passed_ns = self._passed_ns + self.work_ns if self._passed_ns else self.now_ns()
        self.queue.pop(0).at_ns = self._passed_ns

    def pass_own(self) -> None:
        """The clock's own stream passes every mark that waits in it."""
        while self.own_queue:
            self.own_queue.pop(0).at_ns = self.now_ns()

    # -- as timing_logger.recording.device.accelerator.Accelerator ----------------------------------

    def current_index(self) -> int:
        return self.index

    def has_context(self, index: int) -> bool:
        return True

    def current_stream(self, index: int) -> ScriptedStream:
        return ScriptedStream(self.stream_id, SimpleNamespace(index=index))

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
    """This process's accelerator, for one test."""
    device = ScriptedAccelerator()
    monkeypatch.setattr(accelerator, "find_accelerator", lambda: device)
    monkeypatch.setattr(devices, "_in_use", {})
    return device
