"""Reads counters in a thread of their own, which may wait for as long as it likes.

The libraries of devices ask a driver. One that is wedged answers after seconds, or never, and nothing can
interrupt the call. Then this thread alone hangs: the line of the second lacks these counters, and the next
lines too, until it comes back. It is a daemon, so the end of the process does not wait for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from timing_logger.recording.mailbox import Mailbox

Values = Mapping[str, float]

PATIENCE_S = 0.2
"""Seconds that a line waits for the answer."""

_LONG_S = 3600.0


class UnavailableError(Exception):
    """These counters cannot be read here; the argument says why."""


class Apart:
    """A source that is read in a thread of its own, which begins with the first reading.

    Args:
        counters: the names of the counters.
        find: called by that thread, returns the function that reads them; raises
            :class:`UnavailableError` if they cannot be read here.
        is_to_begin: tells whether there is something to read by now; until then there is no thread.
    """

    def __init__(
        self,
        counters: Sequence[str],
        find: Callable[[], Callable[[], Values]],
        *,
        is_to_begin: Callable[[], bool] = lambda: True,
    ) -> None:
        self.counters = counters
        self.why = "what states it was not in use, or has not answered"
        self._is_to_begin = is_to_begin
        self.cpu_ns = 0
        self._find = find
        self._asked: Mailbox[bool] = Mailbox()
        self._answers: Mailbox[Values] = Mailbox()
        self._is_asked = self._is_awaited = False
        self._thread: threading.Thread | None = None

    def paths(self) -> Sequence[str]:
        """Have the counters read, unless an earlier reading is still under way; return no file."""
        if self._thread is None:
            if not self._is_to_begin():
                return ()
            self._thread = threading.Thread(target=self._run, name="timing-logger-device", daemon=True)
            self._thread.start()
        if self._is_asked:
            self._answer_within(0)  # it came too late for its line, and is too old for this one
        self._is_awaited = not self._is_asked
        if self._is_awaited:
            self._is_asked = True
            self._asked.put(True)
        return ()

    def values(self, texts: Sequence[bytes]) -> Values:
        """Return the answer; nothing if it does not come in time. What is late already is not waited for."""
        return self._answer_within(PATIENCE_S) if self._is_awaited else {}

    def close(self) -> None:
        """End the thread, once it has returned from what it is in; this does not wait for it."""
        self._asked.put(False)

    def _answer_within(self, seconds: float) -> Values:
        try:
            answer = self._answers.take(seconds)
        except TimeoutError:
            return {}
        self._is_asked = False
        return answer

    # -- the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        read = self._found()
        while self._is_to_read():
            before_ns = time.thread_time_ns()
            self._answers.put(self._read_by(read))
            self.cpu_ns += time.thread_time_ns() - before_ns

    def _found(self) -> Callable[[], Values]:
        try:
            read = self._find()
        except UnavailableError as error:
            self.why = str(error)
            return dict
        except Exception as error:  # of a library that is not what it seems
            self.why = repr(error)
            return dict
        self.why = "what was asked does not state it"
        return read

    def _read_by(self, read: Callable[[], Values]) -> Values:
        try:
            return read()
        except Exception as error:  # a library's own, of a device that is gone
            self.why = repr(error)
            return {}

    def _is_to_read(self) -> bool:
        while True:
            with suppress(TimeoutError):
                return self._asked.take(_LONG_S)
