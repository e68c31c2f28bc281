"""What becomes of a logger when its process ends or forks."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Protocol

_HOOKS = 5
"""An interrupt may strike a hook before it holds any back; then the next one has its turn."""


class Detachable(Protocol):
    """Has something that belongs to the process that made it."""

    def detach(self) -> None:
        """Let go of it, in a forked child, and in that one's: without waiting for a lock, whose holder
        may be gone."""


def at_exit(function: Callable[[], None]) -> None:
    """Call ``function`` before the interpreter goes down, in this process only.

    It may be called again; interrupts do not break it off.
    """
    owner = os.getpid()

    def call() -> None:
        if os.getpid() == owner:  # an os.fork child that leaves by sys.exit runs its parent's hooks
            with interrupts_held_back():
                function()

    for _ in range(_HOOKS):
        atexit.register(call)
    if "multiprocessing" in sys.modules:
        from multiprocessing import parent_process, util

        if parent_process() is not None:  # its forked children run no atexit hooks
            util.Finalize(None, call, exitpriority=10)


@contextlib.contextmanager
def interrupts_held_back() -> Iterator[None]:
    """In the block handlers of SIGINT and SIGTERM do not run: what they raise would break it off.

    It runs right after, with all that follows from it. Elsewhere than in the main thread, which alone runs
    handlers, nothing needs to be held back.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: set[int] = set()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with contextlib.ExitStack() as afterwards:
        for number, handler in handlers.items():
            if callable(handler):  # not the system's own ways, and none that is not Python's
                afterwards.callback(_raise_if, came, number)
                afterwards.callback(signal.signal, number, handler)
                signal.signal(number, lambda number, _: came.add(number))
        yield


def _raise_if(came: set[int], number: int) -> None:
    if number in came:
        signal.raise_signal(number)


_detachables: weakref.WeakSet[Detachable] = weakref.WeakSet()


def detach_in_forked_children(owner: Detachable) -> None:
    """Call ``owner.detach()`` in every child that this process forks from now on."""
    _detachables.add(owner)


def _detach_all() -> None:
    for owner in list(_detachables):
        owner.detach()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_detach_all)
