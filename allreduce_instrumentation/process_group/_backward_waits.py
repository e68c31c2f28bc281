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
        self._on_host: list[HostOperation] = []
        self._in_streams: list[tuple[DeviceOperation, torch.futures.Future[object]]] = []

    def add(self, operation: Operation, future: torch.futures.Future[object]) -> None:
        if isinstance(operation, DeviceOperation):
            self._in_streams.append((operation, future))
        elif isinstance(operation, HostOperation):
            self._on_host.append(operation)

    def take_over(self, inner: _BackwardPass) -> None:
        """Take over the operations of the nested pass ``inner``, which this pass waits for at its end."""
        self._in_streams += inner._in_streams
        self._on_host += inner._on_host

    def finish(self) -> None:
        """Begin the wait of the calling thread, or of its stream: all gradients are computed."""
        _passes.current = None
        if torch._C._current_autograd_node() is not None:  # a nested pass: the outer one goes on
            _passes.inner = self
            return
        blocked_from_ns, behind = perf_counter_ns(), None
        for operation in self._on_host:
            operation.block_from(blocked_from_ns, behind)
            behind = operation
        for in_stream, future in self._in_streams:
            _make_stream_wait(in_stream, future)


def _make_stream_wait(operation: DeviceOperation, future: torch.futures.Future[object]) -> None:
    """Make the current stream wait for ``future`` between two events, just before DDP does the same."""
    try:
        with operation.wait_span():
            future.wait()
    except Exception:
        pass  # DDP's own wait raises the same error
