"""What is asked of torch about devices: the only module that touches its device API.

Only the generic part of it is used (``torch.Event``, ``torch.accelerator``), so CUDA, ROCm and XPU
work alike; the one thing that has no generic name is the capture mode of a thread. Tests put a
scripted stand-in in the place of :class:`Accelerator`.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

_WITHOUT_TIMED_STREAMS = ("mps",)  # one stream, no second one on which to read its clock
_RELAXED = 2  # cudaStreamCaptureModeRelaxed, and the same number in HIP


class Event(Protocol):
    """A mark that a stream passes, as ``torch.Event(enable_timing=True)`` is."""

    def record(self, stream: Any = None) -> None: ...
    def query(self) -> bool: ...
    def synchronize(self) -> None: ...
    def elapsed_time(self, other: Any, /) -> float:
        """Milliseconds (a float32) from this event to ``other``."""


class Accelerator:
    """The kind of device that this process computes on.

    Attributes:
        kind: ``"cuda"`` (ROCm too) or ``"xpu"``.
        current_index: number of the calling thread's current device.
        is_capturing: whether the calling thread's current stream is being captured into a graph.
    """

    def __init__(self, kind: str) -> None:
        import torch

        module = getattr(torch, kind)
        self.kind = kind
        self.current_index: Callable[[], int] = torch.accelerator.current_device_index
        self.is_capturing: Callable[[], bool] = getattr(module, "is_current_stream_capturing", _never)
        self._exchange = _no_modes if self.is_capturing is _never else _capture_mode_exchange(torch)
        self._new_event = functools.partial(torch.Event, kind, enable_timing=True)

    def new_event(self) -> Event:
        """An event that belongs to the device on which it is recorded first."""
        event: Event = self._new_event()
        return event

    def new_stream(self, index: int) -> Any:
        """A stream of device ``index`` that nobody else was given."""
        import torch

        return torch.Stream(device=f"{self.kind}:{index}", priority=-1)

    def look_at(self, stream: Any) -> tuple[bool, int]:
        """Whether ``stream`` is being captured into a graph, and the number of its device."""
        import torch

        if hasattr(stream, "is_capturing"):  # not every torch has it
            return stream.is_capturing(), stream.device.index
        with torch.get_device_module(self.kind).stream(stream):
            return self.is_capturing(), stream.device.index

    def current_stream(self, index: int) -> Any:
        """The calling thread's current stream on device ``index``."""
        import torch

        return torch.accelerator.current_stream(index)

    @contextmanager
    def asking(self, index: int) -> Iterator[bool]:
        """A block in which this thread asks device ``index`` about events.

        Yields whether that is harmless. In the mode "global", which is the default, a graph capture
        breaks when any thread asks about any event (cudaStreamBeginCapture, "potentially unsafe API
        calls"), unless the asking thread has exchanged its own mode; relaxed also covers the thread
        that captures. The device is made current first, because exchanging the mode would otherwise
        make a context on device 0.
        """
        import ctypes

        import torch

        outer = self.current_index()
        torch.accelerator.set_device_index(index)
        mode = ctypes.c_int(_RELAXED)
        exchanged = self._exchange(ctypes.byref(mode)) == 0
        try:
            yield exchanged
        finally:
            if exchanged:
                self._exchange(ctypes.byref(mode))
            torch.accelerator.set_device_index(outer)


def _capture_mode_exchange(torch: Any) -> Callable[[Any], int]:
    """The function of the loaded runtime or driver that swaps the calling thread's capture mode."""
    import ctypes

    hip, cuda = torch.version.hip, torch.version.cuda
    if hip:
        candidates = [(f"libamdhip64.so.{hip.split('.')[0]}", "hipThreadExchangeStreamCaptureMode")]
    else:
        candidates = [
            (f"libcudart.so.{str(cuda).split('.')[0]}", "cudaThreadExchangeStreamCaptureMode"),
            ("libcuda.so.1", "cuThreadExchangeStreamCaptureMode"),
        ]
    for library, name in candidates:
        with contextlib.suppress(OSError, AttributeError):
            function = getattr(ctypes.CDLL(library, mode=os.RTLD_NOW | os.RTLD_NOLOAD), name)
            function.argtypes, function.restype = [ctypes.POINTER(ctypes.c_int)], ctypes.c_int
            return function  # type: ignore[no-any-return]
    return _not_exchanged


def _no_modes(mode: Any) -> int:
    return 0


def _not_exchanged(mode: Any) -> int:
    return -1


def _never() -> bool:
    return False


@functools.cache
def find_accelerator() -> Accelerator | None:
    """This process's accelerator; None without a device, and without a torch of 2.7 or later."""
    try:
        from torch.accelerator import current_accelerator, current_device_index  # noqa: F401
    except ImportError:
        return None
    found = current_accelerator(check_available=True)
    return None if found is None or found.type in _WITHOUT_TIMED_STREAMS else Accelerator(found.type)
