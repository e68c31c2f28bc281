"""What is undone where Ctrl-C ends this process at once, whatever its threads are doing at that moment.

A command cannot wait for its threads to come out of a library's call, and cannot end without its ``with``
blocks being left either: drafts, new folders and worker processes would stay. So each of these is listed
here for as long as it is there. ``cli.ctrl_c`` installs what ends the process; where that is not
installed, as in a notebook, nothing here has any effect.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

INTERRUPTED = 130
"""A shell's exit code for SIGINT."""


class _Interrupts:
    """The state of this process.

    Attributes:
        undos: what to call before the process ends, the latest first.
        n_held: how many blocks hold Ctrl-C back.
        waits: whether Ctrl-C came meanwhile.
    """

    def __init__(self) -> None:
        self.undos: list[Callable[[], None]] = []
        self.n_held = 0
        self.waits = False


_state = _Interrupts()


@contextmanager
def undone_by(undo: Callable[[], None]) -> Iterator[None]:
    """Have ``undo`` called if Ctrl-C ends the process during the block.

    It may be called from any thread, at any instant of the block, and more than once.
    """
    _state.undos.append(undo)
    try:
        yield
    finally:
        _state.undos.remove(undo)


@contextmanager
def held_back() -> Iterator[None]:
    """Have Ctrl-C wait for the end of the block, which is short: what it does can be done, but not undone."""
    _state.n_held += 1
    try:
        yield
    finally:
        _state.n_held -= 1
        if _state.waits and not _state.n_held:
            end_process()


def is_held_back() -> bool:
    """Tell whether the process may not end now; then it ends when it may."""
    _state.waits = _state.n_held > 0
    return _state.waits


def end_process() -> NoReturn:
    """Undo what is half done, and end the process without waiting for any of its threads."""
    threading.excepthook = sys.unraisablehook = _unsaid  # threads notice what is taken from them
    for undo in reversed(list(_state.undos)):
        with suppress(Exception):  # nobody is left to be told
            undo()
    os._exit(INTERRUPTED)


def _unsaid(error: object) -> None:
    """Say nothing of an error in a process that ends."""
