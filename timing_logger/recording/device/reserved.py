"""Intervals that are made ahead, for code in C++ that marks them without the interpreter's lock.

That code takes one for each block, records its two events, and puts the interval into the ring. From there
on it is an interval like others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import timing_logger.recording.device.accelerator as _accelerator
from timing_logger.recording.device.devices import Device, EventPair, device
from timing_logger.recording.device.intervals import TORCH_ERRORS, DeviceInterval, new_interval

if TYPE_CHECKING:
    import torch

AT_ONCE = 16
"""How many intervals are made at a time: so many blocks share one turn at the interpreter's lock."""


def reserve(stream: torch.Stream) -> list[DeviceInterval]:
    """Return intervals for the next blocks in ``stream``: ``AT_ONCE``, or fewer if the pool lacks events.

    Returns:
        The intervals, none of them marked. A single lost one if no event may or can be recorded in the
        stream now; none while it is being captured into a graph, and if the accelerator is not known.
    """
    accelerator = _accelerator.find_accelerator()
    if accelerator is None:
        return []
    on = device(accelerator, stream.device.index)
    if accelerator.failed:
        return [_made(on, None, stream)]
    try:
        capturing, _ = accelerator.look_at(stream)
    except TORCH_ERRORS as error:
        on.note(error)
        capturing = _accelerator.is_about_capture(error)
        if not capturing:
            return [_made(on, None, stream)]
    if capturing:
        on.captured.increment()
        return []
    return _unless_full(on, stream)


def _unless_full(on: Device, stream: torch.Stream) -> list[DeviceInterval]:
    marks = on.marks_in(stream)
    if marks.is_full():
        on.full.increment()
        return [_made(on, None, stream)]
    made = [_made(on, pair, stream) for pair in on.pool.take_some(AT_ONCE)]
    if not made:
        return [_made(on, None, stream)]
    marks.note(made[0], len(made))
    return made


def _made(on: Device, events: EventPair | None, stream: torch.Stream) -> DeviceInterval:
    return new_interval(on, events, stream, 0)
