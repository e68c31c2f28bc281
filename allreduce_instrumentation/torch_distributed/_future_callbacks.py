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
from pathlib import Path
from typing import Any
from weakref import ref

import torch

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


# -- waits until gloo's threads are idle before the interpreter shuts down -------------------------------
# The thread that ran an operation still has work to do when those who waited for the operation go on: it
# releases the tensors, and torch takes the interpreter's lock for each. A thread that asks for the lock
# during shutdown is ended, and the process is aborted. This happens with torch alone, too; but timing,
# whose callbacks come in between, must not make it more frequent.


_TASKS = Path("/proc/self/task")  # Linux only; elsewhere the state of gloo's threads is unknown
_NAME = "pt_gloo"  # torch's prefix of the names of the threads that run operations
_LIMIT_S = 2.0  # a thread that takes longer still runs an operation


def let_rest() -> None:
    """Wait, for 2 seconds at most, until all of gloo's threads are idle."""
    deadline = time.monotonic() + _LIMIT_S
    before = None
    while (now := _threads()) and time.monotonic() < deadline:
        # Asleep twice without waking in between: then it does not just wait for a mutex of another thread.
        if now == before and all(state.startswith("S") for state, _ in now.values()):
            return
        before = now
        time.sleep(0.001)


def _threads() -> dict[str, tuple[str, str]]:
    """Return each thread's state and how often it has fallen asleep, by thread id; empty if unknown.

    Reading the files releases the interpreter's lock, so a thread that waits for the lock wakes up.
    """
    found = {}
    for task in _TASKS.glob("*"):
        try:
            text = (task / "status").read_text("utf-8", "replace")
        except OSError:  # ended meanwhile
            continue
        fields = dict(line.partition(":\t")[::2] for line in text.splitlines())
        if fields.get("Name", "").startswith(_NAME):
            found[task.name] = (fields.get("State", ""), fields.get("voluntary_ctxt_switches", ""))
    return found
