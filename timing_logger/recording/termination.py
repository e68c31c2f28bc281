"""Handle SIGTERM on a thread: a Python handler would run only after the main thread leaves a hanging call."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from timing_logger.errors import ConfigurationError

if TYPE_CHECKING:
    import socket

_CREDENTIALS_BYTES = 64  # of one message, or more

Told = Callable[[bool], None]
"""Callback for the signal. Its argument: whether the process ends by it as soon as the callback returns."""


class TerminationWatch:
    """Has the C half of Python's signal handling write to a socket, which a thread of this package reads.

    The kernel says which process wrote: a child that C code forks shares socket and handler with its parent,
    and runs no hook in which it could let go of them.

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
        self._read, self._write = _socket_pair()
        self._previous_descriptor = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._handle)
        threading.Thread(target=self._run, name="timing-logger-sigterm", daemon=True).start()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal on the main thread, once that runs Python code again."""
        self.came = True
        with contextlib.suppress(OSError):
            self._write.send(bytes([number]))  # other code may have replaced our wakeup descriptor
        if callable(self._previous):
            self._previous(number, frame)

    def _run(self) -> None:
        while True:
            numbers = _received(self._read)
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
            self._read.close()
            self._write.close()


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return a socket to read from, and one to write to, which never blocks."""
    import socket

    read, write = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    write.setblocking(False)
    if hasattr(socket, "SO_PASSCRED"):  # on Linux
        read.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return read, write


def _received(read: socket.socket) -> bytes:
    """Wait for something that this process wrote, and return it."""
    while True:
        numbers, credentials, _, _ = read.recvmsg(4096, _CREDENTIALS_BYTES)
        writers = [struct.unpack_from("i", data)[0] for _, _, data in credentials]
        if not writers or writers == [os.getpid()]:
            return numbers


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
    """Tell whether SIGTERM has come, of which a registered callback may not have been told yet.

    The signal's previous handler, on the main thread, may be faster than the thread that tells.
    """
    return _watch is not None and _watch.came and told in _watch.told


def not_at_sigterm(told: Told) -> None:
    """Remove a callback that :func:`at_sigterm` registered; it need not be among those."""
    if _watch is not None:
        with contextlib.suppress(ValueError):
            _watch.told.remove(told)


# A signal that reaches a forked child before it has its own handling again would be lost there, and where the
# kernel does not say who wrote, be reported to its parent. So SIGTERM is blocked until then.

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
