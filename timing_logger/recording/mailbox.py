"""Hands things to one waiting thread: safe in signal handlers and finalizers, with a time limit that holds.

``queue.Queue``, ``Event`` and ``Condition`` hold locks: a handler that puts something while its own thread is
inside one would deadlock. ``queue.SimpleQueue`` does not, but its ``get`` may wait for ever: if a signal
comes, it counts the rest of the time limit anew after the handler, and takes less than nothing for no limit
at all (CPython 3.11). Acquiring a lock does not have that fault.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class Mailbox(Generic[ItemT]):
    """A queue without a limit, of which one thread at a time takes."""

    def __init__(self) -> None:
        self._items: deque[ItemT] = deque()
        self._something_came = threading.Lock()  # free once something came
        self._something_came.acquire()

    def put(self, item: ItemT) -> None:
        """Add ``item``, from any thread, a signal handler or a finalizer."""
        self._items.append(item)
        with suppress(RuntimeError):  # it is free already
            self._something_came.release()

    def take(self, timeout_s: float) -> ItemT:
        """Remove and return the oldest item, waiting for one for up to ``timeout_s`` seconds.

        Raises:
            TimeoutError: none came.
        """
        deadline_s = time.monotonic() + timeout_s
        while not self._items:
            if not self._something_came.acquire(timeout=max(0.0, deadline_s - time.monotonic())):
                break
        try:
            return self._items.popleft()
        except IndexError:
            raise TimeoutError from None
