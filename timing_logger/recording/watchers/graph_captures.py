"""Rows of captures of CUDA graphs: how long the host took to record what the device will replay."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.import_hooks import after_import
from timing_logger.recording.watchers.pause_recorders import Recorders
from timing_logger.schema.record import GRAPH_CAPTURE, OK

RECORDERS = Recorders(GRAPH_CAPTURE)


@functools.cache
def watch() -> None:
    """Have torch tell of each capture from now on, once it is imported."""
    after_import("torch.cuda.graphs", time_captures)


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
                    RECORDERS.tell(start_ns, perf_counter_ns(), status=status)

        return capture_end
