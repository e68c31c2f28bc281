"""On whose behalf autograd's engine calls Python: which thread called the backward pass.

The work of an accelerator's backward pass is done by a thread of the engine's own, one for each device. It
calls the hooks and the callbacks at the end of the pass, while whoever called ``backward`` is blocked until
all is done. So what such a hook waits for holds up that thread, and the engine's does nothing else.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

NO_PASS = -1


class Engine(NamedTuple):
    """What of torch's engine can be seen from Python.

    Attributes:
        current_pass: the number of the pass that calls this thread; ``NO_PASS`` outside of any.
        begins: the function in which a thread sits as long as the pass that it called lasts.
        goes_back: the one by which the engine calls a user's own ``Function``, which may call a pass itself.
    """

    current_pass: Callable[[], int]
    begins: CodeType
    goes_back: CodeType


def find_engine() -> Engine | None:
    """The engine, once torch is imported; None before, or if this torch has another one."""
    return _found or _find()


def called_by_the_engine(frames: int) -> bool:
    """Whether C++ called, from within the engine, what is ``frames`` above the asking function.

    Beneath it lies the function that began a pass, or nothing on a thread of the engine's own.
    """
    try:
        below = sys._getframe(frames + 1)
    except ValueError:
        return True
    engine = find_engine()
    return engine is not None and below.f_code is engine.begins


def thread_that_called_the_pass() -> str | None:
    """The name of the thread that is blocked in the backward pass which calls this one.

    None if that cannot be told: this thread called a pass itself, or several others sit in passes of theirs,
    or none that Python started does.
    """
    engine = find_engine()
    if engine is None or not _is_the_engines(sys._getframe(), engine):
        return None
    names = [
        thread.name
        for thread, frame in _threads_of_python()
        if any(each.f_code is engine.begins for each in _from_innermost(frame))
    ]
    return names[0] if len(names) == 1 else None


def _is_the_engines(frame: FrameType, engine: Engine) -> bool:
    """Whether the engine made the first call of Python on this thread, of which ``frame`` is the last."""
    codes = [each.f_code for each in _from_innermost(frame)]
    return engine.begins not in codes or codes[-1] is engine.goes_back


def _threads_of_python() -> Iterator[tuple[threading.Thread, FrameType]]:
    """Those that Python started, and what each is doing. ``threading.enumerate`` would wait for a lock, which
    a signal handler may find taken by its own thread.
    """
    threads: dict[int, threading.Thread] = vars(threading)["_active"]
    for ident, frame in sys._current_frames().items():
        thread = threads.get(ident)
        if thread is not None and not is_foreign(thread):
            yield thread, frame


def is_foreign(thread: threading.Thread) -> bool:
    """Whether somebody else than Python started it: C++ did, say."""
    return isinstance(thread, threading._DummyThread)


def _from_innermost(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


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
    except AttributeError:  # it is being imported, or it is none of those that are known
        return None
    return _found
