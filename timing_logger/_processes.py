"""What becomes of a logger when its process ends or forks."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from collections.abc import Callable
from typing import Protocol


class Detachable(Protocol):
    """Has something that belongs to the process that made it."""

    def detach(self) -> None:
        """Let go of it, in a forked child, and in that one's: without waiting for a lock, whose holder
        may be gone."""


def at_exit(function: Callable[[], None]) -> None:
    """Call ``function`` before the interpreter goes down, in this process only."""
    owner = os.getpid()

    def call() -> None:
        if os.getpid() == owner:  # an os.fork child that leaves by sys.exit runs its parent's hooks
            function()

    atexit.register(call)
    if "multiprocessing" in sys.modules:
        from multiprocessing import parent_process, util

        if parent_process() is not None:  # its forked children run no atexit hooks
            util.Finalize(None, call, exitpriority=10)


_detachables: weakref.WeakSet[Detachable] = weakref.WeakSet()


def detach_in_forked_children(owner: Detachable) -> None:
    """Call ``owner.detach()`` in every child that this process forks from now on."""
    _detachables.add(owner)


def _detach_all() -> None:
    for owner in list(_detachables):
        owner.detach()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_detach_all)
