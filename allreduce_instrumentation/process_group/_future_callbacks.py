"""Calls of Python by the backend's threads: all of them are over before the interpreter goes down.

A thread that waits for the interpreter's lock at that moment ends there and then, and the process is
aborted. torch takes the lock twice for each callback: to call it, and once more to let it go. So it is
under way until it is gone, not until it has run.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import ref

from allreduce_instrumentation.process_group._gloo_threads import let_rest

if TYPE_CHECKING:
    import torch

_SETTLE_S = 0.5


Callback = Callable[["torch.futures.Future[Any]"], None]

_under_way: set[ref[Any]] = set()


def call_when_done(future: torch.futures.Future[Any], callback: Callback) -> None:
    """Have ``callback`` called by the thread that completes ``future``; at once, if it is complete.

    Args:
        callback: a bound method that nobody else keeps.
    """
    _under_way.add(ref(callback, _under_way.discard))  # in C: no other thread gets in between
    future.add_done_callback(callback)


def let_end(which: Callable[[Any], bool]) -> None:
    """Leave the operations that are complete, or about to be, the time to say so; they may be a moment late.

    Args:
        which: of whose callbacks, given the operation.
    """
    deadline = time.monotonic() + _SETTLE_S
    while any(map(which, _owners())) and time.monotonic() < deadline:
        time.sleep(0.001)  # the backend's threads run meanwhile


def _owners() -> list[object]:
    """Whose callbacks are under way. None of them is kept: a callback is let go by who called it."""
    callbacks = [each() for each in list(_under_way)]
    return [callback.__self__ for callback in callbacks if callback is not None]


def _await_all() -> None:
    """To wait for operations adds nothing to an exit: torch itself stays until they end."""
    while _under_way:
        time.sleep(0.001)
    let_rest()


atexit.register(_await_all)  # here, at import, so that it runs after the hooks that come later
os.register_at_fork(after_in_child=_under_way.clear)  # nobody calls back there
