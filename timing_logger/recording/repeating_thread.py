"""A thread that does one thing again and again, and never troubles the program with it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from timing_logger.recording.mailbox import Mailbox

log = logging.getLogger("timing_logger")


class RepeatingThread:
    """Does something at intervals until it is closed.

    Attributes:
        cpu_ns: processor time of the thread so far.
        failed: how often something that it did raised.
        last_error: the latest trouble in words; "" if there was none.

    Args:
        name: of the thread.
        subject: what it writes, in the plural, for messages.
        begin: is called first.
        repeat: is called after each interval. What is late is not made up for.
        end: is called last.
        interval_s: returns the seconds until the next call.
    """

    def __init__(
        self,
        name: str,
        subject: str,
        *,
        begin: Callable[[], None],
        repeat: Callable[[], None],
        end: Callable[[], None],
        interval_s: Callable[[], float],
    ) -> None:
        self._subject = subject
        self._begin, self._repeat, self._end, self._interval_s = begin, repeat, end, interval_s
        self.cpu_ns = self.failed = 0
        self.last_error = ""
        self._said: set[str] = set()
        self._ending: Mailbox[None] = Mailbox()
        self._ended: Mailbox[None] = Mailbox()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin; say so if the system has no thread left."""
        try:
            self._thread.start()
        except RuntimeError as error:
            self._is_over = True
            self.report(f"there are no {self._subject}: {error!r}")

    def close(self, timeout_s: float) -> None:
        """End the thread; wait no longer than ``timeout_s`` seconds for it."""
        self._ending.put(None)
        if threading.current_thread() is self._thread or self._is_over:
            return
        with suppress(TimeoutError):
            self._ended.take(timeout_s)

    def harmless(self, action: Callable[[], None]) -> None:
        """Do it. Each kind of error is logged once."""
        before_ns = time.thread_time_ns()
        try:
            action()
        except BaseException as error:
            self.failed += 1
            self.report(f"{self._subject} could not be written: {error!r}")
        self.cpu_ns += time.thread_time_ns() - before_ns

    def report(self, message: str) -> None:
        """Keep what is wrong, and log it if nothing of its kind was."""
        self.last_error = message
        kind = message.partition(":")[0]
        if kind not in self._said:
            self._said.add(kind)
            log.warning("timing logger: %s", message)

    def _run(self) -> None:
        self.harmless(self._begin)
        due_s = time.monotonic() + self._interval_s()
        while not self._ends_before(due_s):
            self.harmless(self._repeat)
            due_s = max(due_s, time.monotonic()) + self._interval_s()
        self._end()
        self._is_over = True
        self._ended.put(None)

    def _ends_before(self, due_s: float) -> bool:
        try:
            self._ending.take(due_s - time.monotonic())
        except TimeoutError:
            return False
        return True
