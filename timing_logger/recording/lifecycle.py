"""Hooks for the exit and the forks of a logger's process."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from timing_logger.errors import ConfigurationError

if TYPE_CHECKING:
    from typing_extensions import Self

_HOOKS = 5
"""How often the exit hook is registered: an interrupt may strike one before it holds interrupts back."""


class Detachable(Protocol):
    """An object that holds resources of the process that created it."""

    def detach(self) -> None:
        """Release the resources in a forked child, and in a child of that.

        It must not wait for a lock, whose holder may not exist in the child.
        """


class Closable:
    """An object that a ``with`` block closes at its end."""

    def close(self) -> None:
        """Release everything; calling it again is harmless."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def refuse_sub_interpreters() -> None:
    """Refuse to go on outside of the process's main interpreter.

    Others have neither signal handlers nor, from Python 3.12 on, daemon threads, which writing files needs.

    Raises:
        ConfigurationError: this is a sub-interpreter.
    """
    for name in ("_interpreters", "_xxsubinterpreters"):  # since Python 3.13, and before
        with contextlib.suppress(ImportError):
            interpreters: Any = import_module(name)
            if interpreters.get_current() == interpreters.get_main():
                return
            raise ConfigurationError(
                "this is a sub-interpreter, in which no logger can write files: make the TimingLogger in the "
                "main interpreter, or pass enabled=False here."
            )


def exception_that_ends_us() -> str:
    """Return the type of the exception that is under way, or that ended the program; "" if none did."""
    kind: type[BaseException] | None = sys.exc_info()[0] or getattr(sys, "last_type", None)
    return "" if kind is None or issubclass(kind, SystemExit) else kind.__name__


def at_exit(function: Callable[[], None]) -> None:
    """Call ``function`` before the interpreter shuts down, in this process only.

    It may be called more than once. Interrupts do not abort it.
    """
    owner = os.getpid()

    def call() -> None:
        if os.getpid() == owner:  # an os.fork child that ends with sys.exit runs its parent's hooks
            with interrupts_held_back():
                function()

    for _ in range(_HOOKS):
        atexit.register(call)
    if "multiprocessing" in sys.modules:
        from multiprocessing import parent_process, util

        if parent_process() is not None:  # children forked by multiprocessing run no atexit hooks
            util.Finalize(None, call, exitpriority=10)


@contextlib.contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Hold back the handlers of SIGINT and SIGTERM during the block, which their exceptions would abort.

    They run right after the block, with all consequences. Outside of the main thread nothing is held back,
    since only the main thread runs handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: set[int] = set()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with contextlib.ExitStack() as afterwards:
        for number, handler in handlers.items():
            if callable(handler):  # not SIG_DFL or SIG_IGN, and not a handler set outside of Python
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


os.register_at_fork(after_in_child=_detach_all)
