"""Callbacks by the backend's threads, all of which must be over before the interpreter shuts down.

A thread that waits for the interpreter's lock during shutdown is ended, and the process is aborted. torch
takes the lock twice for each callback: to call it, and to release it. So a callback counts as under way
until it is released, not only until it has run.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Collection
from typing import Any
from weakref import ref

import torch

from allreduce_instrumentation.process_group._gloo_threads import let_rest

_SETTLE_S = 0.5


Callback = Callable[["torch.futures.Future[object]"], None]

_under_way: set[ref[Any]] = set()


def call_when_done(future: torch.futures.Future[object], callback: Callback) -> None:
    """Have ``callback`` called by the thread that completes ``future``; at once, if it is complete.

    Args:
        future: the future to wait for.
        callback: a bound method to which there is no other reference.
    """
    _under_way.add(ref(callback, _under_way.discard))  # discard is C: no other thread gets in between
    future.add_done_callback(callback)


def let_end(which: Callable[[object], bool], others: Callable[[], Collection[object]] = tuple) -> None:
    """Wait until the callbacks of some operations are over, for 0.5 seconds at most.

    An operation's callback may come a moment after the operation has completed.

    Args:
        which: tells for an operation whether to wait for its callback.
        others: returns further operations to wait for, whose callbacks are not known here.
    """
    deadline = time.monotonic() + _SETTLE_S
    while (any(map(which, _owners())) or others()) and time.monotonic() < deadline:
        time.sleep(0.001)  # the backend's threads run meanwhile


def _owners() -> list[object]:
    """Return the objects whose callbacks are under way."""
    # The list of callbacks must not outlive this call: the thread that called back has to release them.
    callbacks = [each() for each in list(_under_way)]
    return [callback.__self__ for callback in callbacks if callback is not None]


def _await_all() -> None:
    """Wait at exit until all callbacks are over; it takes no longer than torch's own wait for operations."""
    while _under_way:
        time.sleep(0.001)
    let_rest()


atexit.register(_await_all)  # here, at import, so that it runs after the hooks that come later
os.register_at_fork(after_in_child=_under_way.clear)  # no thread of the child calls back
