"""The Python frames in which threads are now, taken without a risk for the program."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import BuiltinFunctionType, FrameType
from typing import Any

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
