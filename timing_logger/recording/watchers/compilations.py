"""Rows of what ``torch.compile`` compiles while a program runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import cache
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType, TracebackType
from typing import Any

from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.import_hooks import after_import
from timing_logger.recording.watchers.pause_recorders import Recorders
from timing_logger.schema.record import COMPILE, OK

RECORDERS = Recorders(COMPILE)

_CAPTURE = "CUDAGRAPH_RECORDING"  # the capture in it has a row of its own
_CLOSE = 4  # frames from torch's function that compiles: between them are its decorators
_WRAPPERS = "external_utils.py"  # of torch._dynamo: a function there calls the one in its first free variable


@cache
def watch() -> None:
    """Have torch's compiler tell of each compilation from now on; it is never imported for that."""
    after_import("torch._dynamo.callback", time_compilations)


def time_compilations(callback: ModuleType) -> None:
    """Time what torch does within ``install_callbacks``: each compilation of a function, or of its backward.

    Callbacks that a program registers with torch are called for the outermost compilation of all threads
    only, with a lock held, and ``torch._dynamo.reset`` forgets them.

    Args:
        callback: torch's module ``torch._dynamo.callback``; left alone if it has no such function.
    """
    handler = getattr(callback, "callback_handler", None)
    own = getattr(handler, "install_callbacks", None)
    if callable(own):
        vars(handler)["install_callbacks"] = _timed(own)


def _timed(own: Callable[..., AbstractContextManager[None]]) -> Callable[..., AbstractContextManager[None]]:
    functions: dict[str, str] = {}  # by torch's number of their frame, as its backward comes without its name

    def install_callbacks(*args: Any, **kwargs: Any) -> AbstractContextManager[None]:
        around = own(*args, **kwargs)
        trigger, compile_id = (*args, *kwargs.values(), "", "")[:2]  # older versions give none
        kind = getattr(trigger, "name", "")
        if not RECORDERS or kind == _CAPTURE:
            return around
        frame, _, attempt = str(compile_id).rpartition("/")
        function = functions[frame] = _compiled_by(sys._getframe(1)) or functions.get(frame, "")
        return _Compilation(around, function, _phase(kind, attempt))

    return install_callbacks


def _compiled_by(frame: FrameType | None) -> str:
    """Return the name of the function that torch compiles in a frame, or in one close below it; "" for none.

    Nothing but an argument of torch's own function tells it before the end.
    """
    for _ in range(_CLOSE):
        if frame is not None and frame.f_code.co_name != "_compile":
            frame = frame.f_back
    arguments = {} if frame is None else frame.f_locals
    code, cells = arguments.get("code"), arguments.get("closure")
    if not isinstance(code, CodeType):
        return ""
    with suppress(ValueError):  # the variable is empty
        if cells and code.co_filename.endswith(_WRAPPERS):
            return _name_of(cells[0].cell_contents)
    name: str = getattr(code, "co_qualname", code.co_name)  # since Python 3.11
    return name


def _name_of(wrapped: object) -> str:
    """Return the name of a function, or of the class of a module, that torch put into one of its own."""
    return (wrapped if isinstance(wrapped, FunctionType | MethodType) else type(wrapped)).__qualname__


def _phase(kind: str, attempt: str) -> str:
    """Return what is compiled.

    Args:
        kind: torch's name of what set the compilation off.
        attempt: how often the function was compiled before, as ``2``, or ``2_1``; "" if unknown.
    """
    if "BACKWARD" in kind:
        return "backward"
    return "recompile" if attempt.partition("_")[0] not in ("", "0", "None") else "compile"


class _Compilation:
    """A compilation, which is a row once it is over, however it ends."""

    def __init__(self, around: AbstractContextManager[None], function: str, phase: str) -> None:
        self._around = around
        self._function = function
        self._phase = phase
        self._start_ns = 0

    def __enter__(self) -> None:
        self._start_ns = perf_counter_ns()
        self._around.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        try:
            return self._around.__exit__(kind, error, traceback)
        finally:
            RECORDERS.tell(
                self._start_ns, perf_counter_ns(), layer_name=self._function, phase=self._phase,
                status=OK if kind is None else f"error:{kind.__name__}",
            )  # fmt: skip
