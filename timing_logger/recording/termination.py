"""Handle SIGTERM on a thread: a Python handler would run only after the main thread leaves a hanging call."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

from timing_logger.errors import ConfigurationError

Told = Callable[[bool], None]
"""Callback for the signal. Its argument: whether the process ends by it as soon as the callback returns."""


class TerminationWatch:
    """Has the C half of Python's signal handling write to a pipe, which a thread of this package reads.

    The previous handling of the signal still follows: a Python handler is called as before, and a process
    that would have ended ends by the same signal, a moment later.

    Attributes:
        told: the functions that are called when SIGTERM comes.
        came: whether it has come, so far as the main thread knows.
    """

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.came = False
        self._previous = signal.getsignal(signal.SIGTERM)
        import ctypes  # here: sub-interpreters of Python 3.12 cannot load it, and few processes need it

        self._handle_in_c = ctypes.CDLL(None).signal  # Python lets only the main thread set handlers
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._previous_descriptor = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._handle)
        threading.Thread(target=self._run, name="timing-logger-sigterm", daemon=True).start()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal on the main thread, once that runs Python code again."""
        self.came = True
        with contextlib.suppress(OSError):
            os.write(self._write, bytes([number]))  # other code may have replaced our wakeup descriptor
        if callable(self._previous):
            self._previous(number, frame)

    def _run(self) -> None:
        while numbers := os.read(self._read, 4096):
            if self._previous_descriptor >= 0:
                with contextlib.suppress(OSError):
                    os.write(self._previous_descriptor, numbers)
            if signal.SIGTERM in numbers:
                self._tell()

    def _tell(self) -> None:
        ends = self._previous is signal.SIG_DFL
        for told in list(self.told):
            with contextlib.suppress(Exception):
                told(ends)
        if ends:
            self._handle_in_c(signal.SIGTERM, 0)
            os.kill(os.getpid(), signal.SIGTERM)

    def leave_child(self) -> None:
        """Restore the previous signal handling in a forked child, whose signals are not its parent's."""
        self.told.clear()
        with contextlib.suppress(OSError, ValueError):
            signal.set_wakeup_fd(self._previous_descriptor)
            signal.signal(signal.SIGTERM, self._previous)
            os.close(self._read)
            os.close(self._write)


_watch: TerminationWatch | None = None


def at_sigterm(told: Told) -> None:
    """Have ``told`` called when SIGTERM comes, even while the main thread is in a call that does not return.

    Raises:
        ConfigurationError: called outside of the main thread, or SIGTERM has a handler not set from Python.
    """
    global _watch
    if _watch is None:
        if threading.current_thread() is not threading.main_thread():
            raise ConfigurationError("handle_sigterm=True: make the logger on the main thread.")
        if signal.getsignal(signal.SIGTERM) is None:
            raise ConfigurationError(
                "handle_sigterm=True: SIGTERM has a handler that Python did not set, and that would not be "
                "called any more. Leave the option out."
            )
        _watch = TerminationWatch()
    _watch.told.append(told)


def sigterm_came(told: Told) -> bool:
    """Return whether SIGTERM has come, of which a registered callback may not have been told yet.

    The signal's previous handler, on the main thread, may be faster than the thread that tells.
    """
    return _watch is not None and _watch.came and told in _watch.told


def not_at_sigterm(told: Told) -> None:
    """Remove a callback that :func:`at_sigterm` registered; it need not be among those."""
    if _watch is not None:
        with contextlib.suppress(ValueError):
            _watch.told.remove(told)


# A signal that reaches a forked child before it has let go of the pipe would be reported to its parent, so
# SIGTERM is blocked until then.

_masks: list[set[signal.Signals | int]] = []


def _before_fork() -> None:
    if _watch is not None:
        _masks.append(set(signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})))


def _after_fork() -> None:
    if _masks:
        signal.pthread_sigmask(signal.SIG_SETMASK, _masks.pop())


def _leave_in_child() -> None:
    global _watch
    watch, _watch = _watch, None
    if watch is not None:
        watch.leave_child()
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_leave_in_child)
