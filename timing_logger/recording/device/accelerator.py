"""What is asked of torch about devices: the only module that touches its device API.

Only the generic part of it is used (``torch.Event``, ``torch.accelerator``), so CUDA, ROCm and XPU
work alike; the one thing that has no generic name is the capture mode of a thread. Tests put a
scripted stand-in in the place of :class:`Accelerator`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, Protocol

_WITHOUT_TIMED_STREAMS = ("mps",)  # one stream, no second one on which to read its clock
_RELAXED = 2  # cudaStreamCaptureModeRelaxed, and the same number in HIP
_FIRST_HIP_WITH_MODES = (7, 2)  # before, asking broke a capture whatever the thread's mode (ROCm/hip#3876)


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
        failed: what a device said when it failed, after which nothing is asked of any; else empty.
        current_index: number of the calling thread's current device.
        current_stream: the calling thread's current stream of the device with a number.
        is_capturing: whether the calling thread's current stream is being captured into a graph; asking
            makes a context on its device.
        has_context: whether this process uses the device with a number, as far as torch tells.
    """

    def __init__(self, torch: Any, kind: str) -> None:
        self.kind = kind
        self.failed = ""
        self._torch = torch
        self._module = getattr(torch, kind)
        self._device_errors = getattr(torch, "AcceleratorError", ())  # since torch 2.8
        self._new_event = partial(torch.Event, kind, enable_timing=True)
        self.current_index: Callable[[], int] = torch.accelerator.current_device_index
        self.current_stream: Callable[[int], Any] = torch.accelerator.current_stream
        self.is_capturing: Callable[[], bool] = getattr(self._module, "is_current_stream_capturing", _never)
        self.has_context: Callable[[int], bool] = getattr(torch._C, f"_{kind}_hasPrimaryContext", _always)

    def used_devices(self) -> list[int]:
        """Numbers of those on which this process has a context."""
        return [index for index in range(self._module.device_count()) if self.has_context(index)]

    def new_event(self) -> Event:
        """An event that belongs to the device on which it is recorded first."""
        event: Event = self._new_event()
        return event

    def new_stream(self, index: int) -> Any:
        """A stream of device ``index``. Torch has 32 of them: somebody else may be given the same."""
        return self._torch.Stream(device=f"{self.kind}:{index}", priority=-1)

    def look_at(self, stream: Any) -> tuple[bool, int]:
        """Whether ``stream`` is being captured into a graph, and the number of its device."""
        if hasattr(stream, "is_capturing"):  # since torch 2.12
            return stream.is_capturing(), stream.device.index
        index = stream.device.index
        with self.current(stream, index):
            return self.is_capturing(), index

    @contextmanager
    def current(self, stream: Any, index: int) -> Iterator[None]:
        """A block in which ``stream``, of device ``index``, is the calling thread's current one."""
        with self._module.device(index), self._module.stream(stream):
            yield

    def mark(self, event: Event, stream: Any, index: int) -> None:
        """Record ``event`` in ``stream``, of device ``index``, whichever device is current."""
        with self._module.device(index):
            event.record(stream)

    def is_failure(self, error: Exception) -> bool:
        """Whether ``error`` is a device's, and not a call's that asked for what cannot be."""
        if is_about_capture(error):
            return False
        said = str(error).startswith((f"{self.kind} error", "CUDA error", "HIP error"))
        return said or isinstance(error, self._device_errors)

    @contextmanager
    def asking(self, index: int) -> Iterator[bool]:
        """A block in which this thread asks device ``index`` about events.

        Yields whether that is harmless. In the mode "global", which is the default, a graph capture
        breaks when any thread asks about any event (cudaStreamBeginCapture, "potentially unsafe API
        calls"), unless the asking thread has exchanged its own mode; relaxed also covers the thread
        that captures. The device is made current, and given up, in the way that makes no context on
        another one: exchanging the mode alone would make one on device 0.
        """
        import ctypes

        with self._module.device(index):
            mode = ctypes.c_int(_RELAXED)
            exchanged = self._exchange_mode(ctypes.byref(mode)) == 0
            try:
                yield exchanged
            finally:
                if exchanged:
                    self._exchange_mode(ctypes.byref(mode))

    @cached_property
    def _exchange_mode(self) -> Callable[[Any], int]:
        """The function that swaps the calling thread's capture mode: of the loaded runtime, or driver."""
        version = self._torch.version
        if self.kind != "cuda":
            return _no_modes
        if not version.hip:
            runtime = f"libcudart.so.{str(version.cuda).split('.')[0]}"
            return _loaded(runtime, "cudaThreadExchangeStreamCaptureMode") or _loaded(
                "libcuda.so.1", "cuThreadExchangeStreamCaptureMode"
            ) or _not_exchanged  # fmt: skip
        major, minor = (int(part) for part in version.hip.split(".")[:2])
        if (major, minor) < _FIRST_HIP_WITH_MODES:
            return _not_exchanged
        return _loaded(f"libamdhip64.so.{major}", "hipThreadExchangeStreamCaptureMode") or _not_exchanged


def is_about_capture(error: Exception) -> bool:
    """Whether a graph capture is in the way, as it is of the legacy stream while another is captured."""
    return "captur" in str(error)


def _loaded(library: str, name: str) -> Callable[[Any], int] | None:
    """A function of a library that this process has loaded already."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        function = getattr(ctypes.CDLL(library, mode=os.RTLD_NOW | os.RTLD_NOLOAD), name)
        function.argtypes, function.restype = [ctypes.POINTER(ctypes.c_int)], ctypes.c_int
        return function  # type: ignore[no-any-return]
    return None


def _no_modes(mode: Any) -> int:
    return 0


def _not_exchanged(mode: Any) -> int:
    return -1


def _never() -> bool:
    return False


def _always(index: int) -> bool:
    return True


_found: Accelerator | None = None


def find_accelerator() -> Accelerator | None:
    """The accelerator, once this process has used it; None without one, or a torch older than 2.7.

    Nothing is imported or initialised for it: that would take a second in a recording call, and a
    process whose parent has initialised CUDA can never use it.
    """
    return _found or _find()


def _find() -> Accelerator | None:
    global _found
    torch = sys.modules.get("torch")
    accelerator = getattr(torch, "accelerator", None)  # absent while torch is being imported
    if accelerator is None or not hasattr(accelerator, "current_device_index"):
        return None
    kind = getattr(accelerator.current_accelerator(), "type", None)
    if kind is None or kind in _WITHOUT_TIMED_STREAMS or not getattr(torch, kind).is_initialized():
        return None
    _found = Accelerator(torch, kind)
    return _found


def _forget() -> None:
    """In a forked child: its parent's device is out of reach, as torch says when asked anew."""
    global _found
    _found = None


os.register_at_fork(after_in_child=_forget)
