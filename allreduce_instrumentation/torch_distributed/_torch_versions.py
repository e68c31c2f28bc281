"""Which versions of torch were tried, and a warning for all others."""

from __future__ import annotations

import functools
import logging
from types import FunctionType
from typing import Any, TypeVar

import torch

_Function = TypeVar("_Function", bound=Any)


def not_compiled(function: _Function) -> _Function:
    """Exclude ``function`` and everything that it calls from compilation; it costs nothing per call.

    Returns:
        ``function`` itself.
    """
    function._torchdynamo_disable = True  # a compiled function that calls it has a graph break there
    frames = torch._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))
    return function


def leave_uncompiled(kind: type) -> None:
    """Apply :func:`not_compiled` to all methods that the class ``kind`` itself defines."""
    for method in vars(kind).values():
        if isinstance(method, FunctionType):
            not_compiled(method)


OLDEST, NEWEST = (2, 8), (2, 15)
"""The oldest and the newest torch that was tried; what was run is in docs/compatibility.md."""

log = logging.getLogger("timing_logger")


@functools.cache
def warn_of_an_untried_torch() -> None:
    """Log a warning, once in a process, if this torch is older or newer than all that were tried."""
    if not is_tried(torch.__version__):
        log.warning(
            "torch %s was not tried with this package: %s to %s were. What works goes on, and some calls may "
            "be without rows.",
            torch.__version__,
            ".".join(map(str, OLDEST)),
            ".".join(map(str, NEWEST)),
        )


def is_tried(version: str) -> bool:
    """Tell whether torch's ``version``, such as ``"2.13.0+cpu"``, lies between those that were tried."""
    major, minor, *_ = version.split(".")
    try:
        return OLDEST <= (int(major), int(minor)) <= NEWEST
    except ValueError:  # a build of torch's own, under another name
        return False
