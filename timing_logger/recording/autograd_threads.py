"""The frames of threads, and which thread called the backward pass in which autograd's engine calls Python.

For each accelerator device the engine has a thread of its own, which does the work of the backward pass. That
thread calls the hooks, and the callbacks at the end of the pass, while the thread that called ``backward`` is
blocked until all is done. A wait inside a hook therefore holds up the calling thread, and the engine's thread
does nothing else meanwhile.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FrameType
from typing import Any, NamedTuple

_CALL: Any = BuiltinFunctionType.__call__
_STANDARD_LIBRARY = os.path.dirname(os.__file__)
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_OURS = ("timing_logger.", "allreduce_instrumentation.")
_COLLECTS_IN_ALLOCATIONS = sys.version_info < (3, 12)


def current_frames() -> dict[int, FrameType]:
    """Return the innermost frame of each thread, by its identifier.

    Before Python 3.12 the function of ``sys`` may collect garbage while it holds a lock of the interpreter.
    If a finalizer then lets another thread run, and that thread starts one or calls the same function, both
    wait for ever (https://github.com/python/cpython/issues/106883). So nothing is collected meanwhile. All
    three calls are made in C: no thread that switches the collector off or on gets in between.
    """
    if not (_COLLECTS_IN_ALLOCATIONS and gc.isenabled()):
        return sys._current_frames()
    frames: dict[int, FrameType]
    try:
        _, frames, _ = map(_CALL, (gc.disable, sys._current_frames, gc.enable))
    except BaseException:  # of a hook that audits
        gc.enable()
        raise
    return frames


def frame_of_main_thread() -> FrameType | None:
    """Return the innermost frame of the main thread; None if it has none."""
    return current_frames().get(threading.main_thread().ident or 0)


def from_innermost(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield ``frame``, the one that called it, and so on."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def frames_of_program(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield ``frame`` and those around it, from the innermost one outside of these packages."""
    for one in from_innermost(frame):
        if not str(one.f_globals.get("__name__")).startswith(_OURS):
            yield one


@lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """Tell whether ``file`` belongs to the standard library or to an installed package."""
    return file.startswith(("<frozen", _STANDARD_LIBRARY)) or not _INSTALLED.isdisjoint(Path(file).parts)


@lru_cache(maxsize=4096)
def short_path(file: str) -> str:
    """Return the last two parts of a path."""
    return "/".join(Path(file).parts[-2:])


NO_PASS = -1


class Engine(NamedTuple):
    """The parts of torch's autograd engine that are visible from Python.

    Attributes:
        current_pass: returns the number of the pass that calls this thread; ``NO_PASS`` outside of any.
        begins: the code of the function in which a thread stays for the whole pass that it called.
        goes_back: the code of the function by which the engine calls a user's own ``Function``, which may
            call a pass itself.
    """

    current_pass: Callable[[], int]
    begins: CodeType
    goes_back: CodeType


def find_engine() -> Engine | None:
    """Return torch's autograd engine; None before torch is imported, or if this torch has an unknown one."""
    return _found or _find()


def called_by_the_engine() -> bool:
    """Tell whether C++ code called the function that calls this one from within the autograd engine.

    If so, the next Python frame is that of the function that began a pass, or there is none, on a thread of
    the engine's own.
    """
    try:
        below = sys._getframe(2)
    except ValueError:
        return True
    engine = find_engine()
    return engine is not None and below.f_code is engine.begins


def thread_that_called_the_pass() -> str | None:
    """Return the name of the thread that is blocked in the backward pass that calls this thread.

    None if it cannot be determined: this thread called a pass itself, several other threads are in passes, or
    no thread that Python started is.
    """
    engine = find_engine()
    if engine is None or not _is_the_engines(sys._getframe(), engine):
        return None
    names = [
        thread.name
        for thread, frame in _threads_of_python()
        if any(each.f_code is engine.begins for each in from_innermost(frame))
    ]
    return names[0] if len(names) == 1 else None


def _is_the_engines(frame: FrameType, engine: Engine) -> bool:
    """Tell whether the engine made the first Python call of the thread whose last frame is ``frame``."""
    codes = [each.f_code for each in from_innermost(frame)]
    return engine.begins not in codes or codes[-1] is engine.goes_back


def _threads_of_python() -> Iterator[tuple[threading.Thread, FrameType]]:
    """Yield each thread that Python started, and its innermost frame.

    ``threading.enumerate`` would wait for a lock, which a signal handler may find held by its own thread.
    """
    threads: dict[int, threading.Thread] = vars(threading)["_active"]
    for ident, frame in current_frames().items():
        thread = threads.get(ident)
        if thread is not None and not is_foreign(thread):
            yield thread, frame


def is_foreign(thread: threading.Thread) -> bool:
    """Tell whether ``thread`` was started by code other than Python's ``threading``, such as C++."""
    return isinstance(thread, threading._DummyThread)


_found: Engine | None = None


def _find() -> Engine | None:
    global _found
    torch: Any = sys.modules.get("torch")
    try:
        _found = Engine(
            torch._C._current_graph_task_id,
            torch.autograd.graph._engine_run_backward.__code__,
            torch.autograd.function.BackwardCFunction.apply.__code__,
        )
    except AttributeError:  # torch is being imported, or its engine is not one of those known here
        return None
    return _found
