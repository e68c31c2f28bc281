"""``torch.asyncdev``: what torch asks of a kind of device in Python, and what only a device for tests has."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch import Event, Stream
from torch._C import _accelerator_getStream as _stream_of

__all__ = ["Event", "Stream"]

_ops = torch.ops.asyncdev
_pid = os.getpid()

# -- devices ---------------------------------------------------------------------------------------------


def is_available() -> bool:
    return device_count() > 0


def device_count() -> int:
    """``ASYNC_DEVICE_COUNT`` of the environment, else 2."""
    count: int = _ops.device_count()
    return count


def is_initialized() -> bool:
    """Whether any device was used, and can be: a forked child has none."""
    return not _is_in_bad_fork() and any(map(has_context, range(device_count())))


def has_context(index: int) -> bool:
    """Whether this process has memory of device ``index``, or has ever put anything into a stream of it."""
    has: bool = _ops.has_context(index)
    return has


def current_device() -> int:
    return torch.accelerator.current_device_index()


def set_device(device: Any) -> None:
    torch.accelerator.set_device_index(_index(device))


def synchronize(device: Any = None) -> None:
    torch.accelerator.synchronize(_index(device))


@contextlib.contextmanager
def device(device: Any) -> Iterator[None]:
    """A block in which ``device`` is current."""
    before = current_device()
    set_device(device)
    try:
        yield
    finally:
        set_device(before)


def _index(device: Any) -> int:
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    index = torch.device(device).index
    return current_device() if index is None else index


# -- streams ---------------------------------------------------------------------------------------------


def current_stream(device: Any = None) -> Stream:
    return _stream_of(_index(device))


def set_stream(stream: Stream) -> None:
    torch.accelerator.set_stream(stream)


def stream(stream: Stream | None) -> contextlib.AbstractContextManager[Any]:
    """A block in which ``stream`` is current."""
    return contextlib.nullcontext() if stream is None else stream


def is_current_stream_capturing() -> bool:
    return bool(current_stream().is_capturing())


# -- random numbers: the host's --------------------------------------------------------------------------


def manual_seed_all(seed: int) -> None:
    """The host's generator, which is used, was seeded by the caller."""


manual_seed = manual_seed_all


def get_rng_state(device: Any = None) -> torch.Tensor:
    return torch.get_rng_state()


def set_rng_state(state: torch.Tensor, device: Any = None) -> None:
    torch.set_rng_state(state)


def _is_in_bad_fork() -> bool:
    return os.getpid() != _pid


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16, torch.float16]


# -- what only a device for tests has --------------------------------------------------------------------


def spin(ms: float, device: Any = None) -> None:
    """A kernel in the current stream of ``device`` that lasts ``ms`` milliseconds. The caller goes on."""
    _ops.spin(ms, _index(device))


class Gate:
    """A kernel that goes on until :meth:`open`: a test decides when its stream gets on."""

    def __init__(self, number: int) -> None:
        self._number = number

    def open(self) -> None:
        _ops.open(self._number)


def hold(device: Any = None) -> Gate:
    """Let the current stream of ``device`` stand still until the gate is opened. The caller goes on."""
    return Gate(_ops.hold(_index(device)))


def fail(why: str, device: Any = None) -> None:
    """A kernel that fails. From then on every call of this process raises ``asyncdev error: {why}``."""
    _ops.fail(why, _index(device))


def set_queue_capacity(tasks: int) -> None:
    """So many tasks fit into a stream, marks and kernels; who brings more waits. 1024 at first."""
    _ops.set_queue_capacity(tasks)


@contextlib.contextmanager
def capture() -> Iterator[list[int]]:
    """A block whose work in the current stream is kept for :func:`replay`; how many tasks, in the list."""
    tasks: list[int] = []
    index = current_device()
    _ops.begin_capture(index)
    try:
        yield tasks
    finally:
        tasks.append(_ops.end_capture(index))


def replay() -> None:
    """Put what was captured last into the current stream."""
    _ops.replay(current_device())
