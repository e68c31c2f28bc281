"""Keeps ``torch.compile`` out of the timing.

A compiled function that calls torch's C++, which calls a timed group's method, would compile that method.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, TypeVar

import torch

_Function = TypeVar("_Function", bound=Any)


def not_compiled(function: _Function) -> _Function:
    """Let ``torch.compile`` run ``function``, and what it calls, as it stands. Costs nothing per call."""
    function._torchdynamo_disable = True  # where a compiled function calls it, the graph breaks
    frames = torch._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))
    return function


def leave_uncompiled(kind: type) -> None:
    """:func:`not_compiled` for all methods that ``kind`` itself has."""
    for method in vars(kind).values():
        if isinstance(method, FunctionType):
            not_compiled(method)
