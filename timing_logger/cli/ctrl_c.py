"""Ctrl-C ends a command at once, with nothing left behind and nothing said but its exit code, 130."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from timing_logger.process.interrupts import end_process, is_held_back

_PATIENCE_S = 0.2
"""The main thread ends the process, unless it has not come out of a library's call by then."""

_HELD_S = 2.0
_LOOK_S = 0.01


@contextmanager
def ended_at_once() -> Iterator[None]:
    """Have SIGINT end the process during the block, where it would raise KeyboardInterrupt.

    Nothing is raised: libraries swallow exceptions while they are imported, executors wait for their threads,
    and an exception that comes out of a destructor is printed.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    heard, told = os.pipe()
    os.set_blocking(told, False)  # as Python wants it
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _on_interrupt)
    threading.Thread(target=_watch, args=(heard,), name="ctrl-c", daemon=True).start()
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.set_wakeup_fd(-1)
        os.close(told)  # which ends the thread


@contextmanager
def raised() -> Iterator[None]:
    """Have SIGINT raise KeyboardInterrupt during the block, for a command that ends with a last word."""
    if signal.getsignal(signal.SIGINT) is not _on_interrupt:
        yield
        return
    with _unwatched():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, _on_interrupt)


@contextmanager
def _unwatched() -> Iterator[None]:
    """Keep signals of the block from the thread that watches: it may hear of one when the block is over."""
    told = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)


@contextmanager
def noted() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether SIGINT or SIGTERM came during the block, which they do not end.

    It is for a command that goes on until it is told to end. A second Ctrl-C ends it at once. A signal that
    was ignored, as Ctrl-C is by what a script starts in the background, still is.
    """
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if came and number == signal.SIGINT:
            end_process()
        came.append(number)

    heard = [one for one in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(one) != signal.SIG_IGN]
    with _unwatched():
        before = {number: signal.signal(number, note) for number in heard}
        try:
            yield lambda: bool(came)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _on_interrupt(number: int, frame: FrameType | None) -> None:
    """End the process from the main thread, between two of its steps."""
    if not is_held_back():
        end_process()


def _watch(heard: int) -> None:
    """End the process where the main thread does not get to it, since a library's call keeps it."""
    while numbers := os.read(heard, 64):
        if signal.SIGINT in numbers and signal.getsignal(signal.SIGINT) is _on_interrupt:
            time.sleep(_PATIENCE_S)
            until_s = time.monotonic() + _HELD_S
            while is_held_back() and time.monotonic() < until_s:
                time.sleep(_LOOK_S)
            end_process()
    os.close(heard)
