"""The queries to torch about devices: the only module of ``timing_logger`` that uses its device API.

Only the generic part of that API is used (``torch.Event``, ``torch.accelerator``), so CUDA, ROCm and XPU work
alike. The one thing without a generic name is the capture mode of a thread. Tests replace
:class:`Accelerator` by a scripted stand-in.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch as _torch
    from typing_extensions import Self

_WITHOUT_TIMED_STREAMS = ("mps",)  # has one stream only, and no second one for anchors of its clock
_RELAXED = 2  # cudaStreamCaptureModeRelaxed, and the same number in HIP
_FIRST_HIP_WITH_MODES = (7, 2)  # earlier, a query broke a capture in any mode of the thread (ROCm/hip#3876)
_OF_THE_ALLOCATOR = ("num_alloc_retries", "num_ooms")


class DeviceEvent(Protocol):
    """A mark that a stream passes, such as ``torch.Event(enable_timing=True)``."""

    def record(self, stream: _torch.Stream | None = None) -> None:
        """Put the mark into a stream, by default the current one."""

    def query(self) -> bool:
        """Tell whether the stream has passed the mark."""

    def synchronize(self) -> None:
        """Wait until the stream has passed the mark."""

    def elapsed_time(self, other: Self, /) -> float:
        """Return the milliseconds (a float32) from this event to ``other``."""


class Accelerator:
    """The kind of device that this process computes on.

    Attributes:
        kind: ``"cuda"`` (ROCm too) or ``"xpu"``.
        failed: the error message of a device that failed, after which no device is queried; else empty.
        new_event: returns an event, which belongs to the device on which it is recorded first.
        current_index: returns the number of the calling thread's current device.
        current_stream: returns the calling thread's current stream of the device with a number.
        is_capturing: returns whether the calling thread's current stream is being captured into a graph. The
            query creates a context on its device.
        has_context: returns whether this process uses the device with a number, as far as torch knows.
    """

    def __init__(self, torch: Any, kind: str) -> None:
        self.kind = kind
        self.failed = ""
        self._torch = torch
        self._module = getattr(torch, kind)
        self._device_errors = getattr(torch, "AcceleratorError", ())  # since torch 2.8
        self.new_event: Callable[[], DeviceEvent] = partial(torch.Event, kind, enable_timing=True)
        self.current_index: Callable[[], int] = torch.accelerator.current_device_index
        self.current_stream: Callable[[int], _torch.Stream] = torch.accelerator.current_stream
        self._set_current_stream: Callable[[_torch.Stream], None] = torch.accelerator.set_stream
        self.is_capturing: Callable[[], bool] = getattr(
            self._module, "is_current_stream_capturing", lambda: False
        )
        self.has_context: Callable[[int], bool] = getattr(
            torch._C, f"_{kind}_hasPrimaryContext", lambda index: True
        )

    def used_devices(self) -> list[int]:
        """Return the numbers of the devices on which this process has a context."""
        return [index for index in range(self._module.device_count()) if self.has_context(index)]

    def allocator_counters(self) -> dict[str, int]:
        """Return what torch's allocator counted on the devices that this process uses, since it first did.

        The counts are in the host's memory: their reader waits for the allocator's lock at most.
        """
        devices = map(self._module.memory_stats_as_nested_dict, self.used_devices())
        counted = [{name: device.get(name, 0) for name in _OF_THE_ALLOCATOR} for device in devices]
        return {name: sum(one[name] for one in counted) for name in _OF_THE_ALLOCATOR} if counted else {}

    def new_stream(self, index: int) -> _torch.Stream:
        """Return a stream of device ``index``. Torch has only 32, so other code may be given the same one."""
        stream: _torch.Stream = self._torch.Stream(device=f"{self.kind}:{index}", priority=-1)
        return stream

    def stream_of_handle(self, handle: int, index: int) -> _torch.Stream:
        """Return the stream of device ``index`` that has this ``cudaStream_t``; 0 is the default stream."""
        if handle == 0:
            default: _torch.Stream = self._module.default_stream(index)
            return default
        external: _torch.Stream = self._module.ExternalStream(handle, device=index)
        return external

    def look_at(self, stream: _torch.Stream) -> tuple[bool, int]:
        """Tell whether ``stream`` is being captured into a graph, and the number of its device."""
        if hasattr(stream, "is_capturing"):  # since torch 2.12
            return stream.is_capturing(), stream.device.index
        index = stream.device.index
        with self.current(stream, index):
            return self.is_capturing(), index

    @contextmanager
    def current(self, stream: _torch.Stream, index: int) -> Iterator[None]:
        """Make ``stream``, of device ``index``, the calling thread's current one during the block."""
        if self.current_index() != index:
            with self._module.device(index), self._module.stream(stream):
                yield
            return
        before = self.current_stream(index)
        self._set_current_stream(stream)  # the context manager of `torch.cuda` takes ten times as long
        try:
            yield
        finally:
            self._set_current_stream(before)

    def mark(self, event: DeviceEvent, stream: _torch.Stream, index: int) -> None:
        """Record ``event`` in ``stream``, of device ``index``, whichever device is current."""
        if self.current_index() == index:
            event.record(stream)
            return
        with self._module.device(index):
            event.record(stream)

    def is_failure(self, error: Exception) -> bool:
        """Tell whether ``error`` is a failure of a device, and not of a call that was not possible."""
        if is_about_capture(error):
            return False
        said = str(error).startswith((f"{self.kind} error", "CUDA error", "HIP error"))
        return said or isinstance(error, self._device_errors)

    @contextmanager
    def asking(self, index: int) -> Iterator[bool]:
        """Let this thread query events of device ``index`` during the block.

        Yields whether queries are harmless. In the mode "global", which is the default, a graph capture
        breaks when any thread queries any event (cudaStreamBeginCapture, "potentially unsafe API calls"),
        unless the querying thread has exchanged its own mode; relaxed mode also covers the thread that
        captures. The device is made current, and released, in the way that creates no context on another one:
        exchanging the mode alone would create one on device 0.
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
    def _exchange_mode(self) -> Callable[[object], int]:
        """The function of the loaded runtime or driver that swaps the calling thread's capture mode."""
        version = self._torch.version
        if self.kind != "cuda":
            return lambda mode: 0
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
    """Tell whether ``error`` was caused by a graph capture.

    A use of the legacy stream fails in this way while another stream is captured.
    """
    return "captur" in str(error)


def _loaded(library: str, name: str) -> Callable[[object], int] | None:
    """Return a function of a library that this process has loaded already; None if there is none."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        function = getattr(ctypes.CDLL(library, mode=os.RTLD_NOW | os.RTLD_NOLOAD), name)
        function.argtypes, function.restype = [ctypes.POINTER(ctypes.c_int)], ctypes.c_int
        return function  # type: ignore[no-any-return]
    return None


def _not_exchanged(mode: object) -> int:
    return -1


_found: Accelerator | None = None


def find_accelerator() -> Accelerator | None:
    """Return the accelerator once this process has used it; None without one, or with torch older than 2.7.

    Nothing is imported or initialised: that would take a second in a recording call, and a process whose
    parent has initialised CUDA can never use it.
    """
    return _found or _find()


def allocator_counters() -> dict[str, int]:
    """Return how often torch's allocator of device memory was short of it since this process began.

    How long each took is not known, so these are counts, and no rows. The device is not asked, so they may be
    read on any thread and at any time, also while a graph is captured.

    Returns:
        ``num_alloc_retries``, how often the allocator gave all cached memory back to the device and asked
        again, and ``num_ooms``, how often there was not enough all the same; over all devices that this
        process uses. Empty if it uses none, or if its torch does not count.
    """
    accelerator = find_accelerator()
    if accelerator is None or accelerator.failed:
        return {}
    try:
        return accelerator.allocator_counters()
    except (AttributeError, RuntimeError):  # another torch, or a device that failed
        return {}


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
    """Forget the accelerator in a forked child, which cannot use the device of its parent."""
    global _found
    _found = None


os.register_at_fork(after_in_child=_forget)
