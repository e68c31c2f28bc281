"""Times the wait at the end of a backward pass for the operations that are still running.

``DistributedDataParallel`` takes the future of each bucket and waits for all futures in C++, in the order
of their issue, when the whole backward pass is done. Python code cannot see when that wait begins. But the
autograd engine runs the callbacks of a pass in the order in which they were queued: one that is
queued when the first future is taken runs just before the wait.
"""

from __future__ import annotations

import threading
from time import perf_counter_ns

import torch

from allreduce_instrumentation.process_group._operations import DeviceOperation, HostOperation, Operation
from timing_logger.record import OK, WAIT
from timing_logger.recording.autograd_threads import NO_PASS

_passes = threading.local()


def note_use_in_backward(operation: Operation, future: torch.futures.Future[object]) -> None:
    """Note that the future of ``operation`` was taken; a backward pass will wait for it at its end.

    Does nothing outside of a backward pass.
    """
    number = torch._C._current_graph_task_id()
    if number == NO_PASS:
        return
    current: _BackwardPass | None = getattr(_passes, "current", None)
    if current is None or current.number != number:
        current = _passes.current = _BackwardPass(number)
        inner: _BackwardPass | None = vars(_passes).pop("inner", None)
        if inner is not None:
            current.take_over(inner)
        torch.autograd.Variable._execution_engine.queue_callback(current.finish)
    current.add(operation, future)


class _BackwardPass:
    """One backward pass of the autograd engine, with the operations that it will wait for, in their order."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._blocked_from_ns: int | None = None
        self._on_host: list[HostOperation] = []
        self._unwritten: set[HostOperation] = set()
        self._in_streams: list[tuple[DeviceOperation, torch.futures.Future[object]]] = []

    def add(self, operation: Operation, future: torch.futures.Future[object]) -> None:
        if isinstance(operation, DeviceOperation):
            self._in_streams.append((operation, future))
        elif isinstance(operation, HostOperation):
            self._on_host.append(operation)
            self._unwritten.add(operation)
            operation.on_end = self._write

    def take_over(self, inner: _BackwardPass) -> None:
        """Take over the operations of the nested pass ``inner``, which this pass waits for at its end."""
        self._in_streams += inner._in_streams
        for operation in inner._on_host:
            self._on_host.append(operation)
            self._unwritten.add(operation)
            operation.on_end = self._write

    def finish(self) -> None:
        """Begin the wait of the calling thread, or of its stream: all gradients are computed."""
        _passes.current = None
        if torch._C._current_autograd_node() is not None:  # a nested pass: the outer one goes on
            _passes.inner = self
            return
        self._blocked_from_ns = perf_counter_ns()
        for operation in self._on_host:
            if operation.ended_ns is not None:
                self._write(operation)
        for in_stream, future in self._in_streams:
            _make_stream_wait(in_stream, future)

    def _write(self, operation: HostOperation) -> None:
        """Write the wait row of ``operation``, if it has ended and the pass has begun to wait."""
        end_ns, blocked_from_ns = operation.ended_ns, self._blocked_from_ns
        if end_ns is None or blocked_from_ns is None:
            return
        try:
            self._unwritten.remove(operation)  # atomic: the thread that comes first writes the row
        except KeyError:
            return
        operation.on_end = None  # breaks a reference cycle
        start_ns = max(blocked_from_ns, self._freed_before(operation, end_ns))
        operation.write(WAIT, start_ns, max(start_ns, end_ns), OK)

    def _freed_before(self, operation: HostOperation, end_ns: int) -> int:
        """Return when the wait for the operations issued earlier was over, in ns; 0 if there are none."""
        freed_ns = 0
        for earlier in self._on_host:
            if earlier is operation:
                break
            freed_ns = max(freed_ns, end_ns if earlier.ended_ns is None else earlier.ended_ns)
        return min(freed_ns, end_ns)


def _make_stream_wait(operation: DeviceOperation, future: torch.futures.Future[object]) -> None:
    """Make the current stream wait for ``future`` between two events, just before DDP does the same."""
    try:
        with operation.wait_span():
            future.wait()
    except Exception:
        pass  # DDP's own wait raises the same error
