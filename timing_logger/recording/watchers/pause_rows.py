"""The rows of pauses that a logger has: of what stops a thread from within, at any place of the program.

These are collections by Python's garbage collector, compilations by ``torch.compile``, captures of CUDA
graphs, and modules that a program imports in its steps, which it does where it first needs them.
"""

from __future__ import annotations

import functools
import gc
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from importlib import _bootstrap  # private, see _lock_of
from importlib.machinery import ModuleSpec
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType, TracebackType
from typing import Any, Protocol
from weakref import ref

from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.import_hooks import after_import
from timing_logger.schema import defaults
from timing_logger.schema.record import OK, PAUSES


class PauseRows:
    """Has a recorder told of pauses, from ``begin`` to ``end``.

    What was hooked in torch stays so, as torch calls it from anywhere; it then tells nobody.
    """

    def __init__(self, recorder: RecordsIntervals) -> None:
        self._recorder = ref(recorder)

    def begin(self) -> None:
        """Begin with all kinds."""
        for kind in KINDS:
            kind.add(self._recorder)
        if _told not in gc.callbacks:
            gc.callbacks.append(_told)
        if _WATCH not in sys.meta_path:
            sys.meta_path.insert(0, _WATCH)
        _watch_torch()

    def end(self) -> None:
        """End with all of them; may be called again."""
        for kind in KINDS:
            kind.remove(self._recorder)
        if not COLLECTIONS and _told in gc.callbacks:
            gc.callbacks.remove(_told)
        if not IMPORTS and _WATCH in sys.meta_path:
            sys.meta_path.remove(_WATCH)


class RecordsIntervals(Protocol):
    """A recorder, as far as rows of pauses need it."""

    @property
    def has_iteration(self) -> bool:
        """Whether the program has begun to count iterations."""

    def record_interval(
        self, operation: str, start_ns: int, end_ns: int, *, layer_name: str = "", phase: str = "",
        status: str = OK,
    ) -> None:  # fmt: skip
        """Record an interval."""


class Recorders:
    """The recorders that want rows of the pauses of one kind, as ``gc.callbacks`` has them of collections.

    Whoever tells of a pause may be in the middle of anything, so there is no lock: the list is copied in one
    step before it is gone through.
    """

    def __init__(self, operation: str) -> None:
        self._operation = operation
        self._recorders: list[ref[RecordsIntervals]] = []

    def __bool__(self) -> bool:
        return bool(self._recorders)

    def add(self, recorder: ref[RecordsIntervals]) -> None:
        """Tell ``recorder`` of all pauses from now on."""
        self._recorders.append(recorder)

    def remove(self, recorder: ref[RecordsIntervals]) -> None:
        """Tell it of no more; may be called again."""
        with suppress(ValueError):
            self._recorders.remove(recorder)

    def tell(
        self, start_ns: int, end_ns: int, *, layer_name: str = "", phase: str = "", status: str = OK,
        in_iterations: bool = False,
    ) -> None:  # fmt: skip
        """Have each recorder record a pause of this thread.

        Args:
            start_ns, end_ns: when it began and ended, in ns of ``time.perf_counter_ns``.
            layer_name, phase, status: of the row.
            in_iterations: whether only a program that counts iterations already has a row of it.
        """
        for one in tuple(self._recorders):
            recorder = one()
            if recorder is not None and (recorder.has_iteration or not in_iterations):
                recorder.record_interval(
                    self._operation, start_ns, end_ns, layer_name=layer_name, phase=phase, status=status
                )


KINDS = COLLECTIONS, COMPILATIONS, CAPTURES, IMPORTS = tuple(map(Recorders, PAUSES))


@functools.cache
def _watch_torch() -> None:
    """Have torch tell of compilations and captures from now on, once it is imported: never for that."""
    after_import("torch._dynamo.callback", time_compilations)
    after_import("torch.cuda.graphs", time_captures)


# -- collections -----------------------------------------------------------------------------------------

_start_ns = 0  # one instant will do: one collection is under way in a process, whatever other threads do


def _told(phase: str, info: dict[str, int]) -> None:
    """Record a pause of at least 0.2 ms on the thread that it stopped, with the generation as its phase."""
    global _start_ns
    if phase == "start":
        _start_ns = perf_counter_ns()
        return
    start_ns, end_ns, _start_ns = _start_ns, perf_counter_ns(), 0
    if start_ns and end_ns - start_ns >= defaults.SHORTEST_COLLECTION_NS:
        COLLECTIONS.tell(start_ns, end_ns, phase=f"generation {info['generation']}")


# -- compilations ----------------------------------------------------------------------------------------

_CAPTURE = "CUDAGRAPH_RECORDING"  # the capture in it has a row of its own
_CLOSE = 4  # frames from torch's function that compiles: between them are its decorators
_WRAPPERS = "external_utils.py"  # of torch._dynamo: a function there calls the one in its first free variable


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
        vars(handler)["install_callbacks"] = _timed_compilations(own)


def _timed_compilations(
    own: Callable[..., AbstractContextManager[None]],
) -> Callable[..., AbstractContextManager[None]]:
    functions: dict[str, str] = {}  # by torch's number of their frame, as its backward comes without its name

    def install_callbacks(*args: Any, **kwargs: Any) -> AbstractContextManager[None]:
        around = own(*args, **kwargs)
        trigger, compile_id = (*args, *kwargs.values(), "", "")[:2]  # older versions give none
        kind = getattr(trigger, "name", "")
        if not COMPILATIONS or kind == _CAPTURE:
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
            COMPILATIONS.tell(
                self._start_ns, perf_counter_ns(), layer_name=self._function, phase=self._phase,
                status=OK if kind is None else f"error:{kind.__name__}",
            )  # fmt: skip


# -- captures: how long the host took to record what the device will replay ------------------------------


def time_captures(graphs: ModuleType) -> None:
    """Time from the begin of a capture to its end, by the host's clock: nothing asks the device.

    All ways to capture come by these two methods: ``torch.cuda.graph``, ``make_graphed_callables``, and the
    graphs of ``torch.compile``.

    Args:
        graphs: torch's module ``torch.cuda.graphs``; left alone if its class has no such methods.
    """
    graph = getattr(graphs, "CUDAGraph", None)
    begin, end = (getattr(graph, name, None) for name in ("capture_begin", "capture_end"))
    if graph is not None and callable(begin) and callable(end):
        capture = _Captures()
        graph.capture_begin, graph.capture_end = capture.beginning(begin), capture.ending(end)


class _Captures(threading.local):
    """The capture that a thread is in: it ends on the thread on which it began, before another begins."""

    start_ns = 0

    def beginning(self, own: Callable[..., object]) -> Callable[..., object]:
        """Return the method that begins a capture, so that it is timed if it begins."""

        @functools.wraps(own)
        def capture_begin(*args: Any, **kwargs: Any) -> object:
            start_ns = perf_counter_ns()
            begun = own(*args, **kwargs)
            self.start_ns = start_ns
            return begun

        return capture_begin

    def ending(self, own: Callable[..., object]) -> Callable[..., object]:
        """Return the method that ends a capture, so that a row is made, also of one that failed."""

        @functools.wraps(own)
        def capture_end(*args: Any, **kwargs: Any) -> object:
            status = OK
            try:
                return own(*args, **kwargs)
            except BaseException as error:
                status = f"error:{type(error).__name__}"
                raise
            finally:
                start_ns, self.start_ns = self.start_ns, 0
                if start_ns:
                    CAPTURES.tell(start_ns, perf_counter_ns(), status=status)

        return capture_end


# -- imports ---------------------------------------------------------------------------------------------


class _Watch:
    """Finds no module, but sees on its place that one is looked for: that its import begins.

    So the import is what it would be without. Nothing is called where a module has been imported before.
    """

    def __init__(self) -> None:
        self._outermost: ref[object] | None = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find nothing, and note when the import of ``name`` begins, if no other is under way."""
        if self._outermost is None and IMPORTS and _is_main_thread():
            lock = _lock_of(name)
            if lock is not None:
                self._outermost = ref(lock, functools.partial(self._ended, name, perf_counter_ns()))
        return None

    def _ended(self, name: str, start_ns: int, lock: ref[object]) -> None:
        end_ns, self._outermost = perf_counter_ns(), None
        if end_ns - start_ns >= defaults.SHORTEST_IMPORT_NS and _is_main_thread():
            IMPORTS.tell(start_ns, end_ns, layer_name=name, in_iterations=True)


def _lock_of(name: str) -> object | None:
    """Return the lock that the import of a module holds; None if it is only looked up, not imported.

    ``importlib`` drops the lock as soon as the import is over, also if it failed. To see this end, a loader
    of ours in place of the module's own would be the alternative, which others would see.
    """
    reference = getattr(_bootstrap, "_module_locks", {}).get(name)
    return None if reference is None else reference()


def _is_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


_WATCH = _Watch()
