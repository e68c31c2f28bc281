"""Keeps ``torch.compile`` from compiling the timing code.

If a compiled function calls torch's C++ code and that calls a method of a timed group, ``torch.compile``
would compile this method.
"""

from __future__ import annotations

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
