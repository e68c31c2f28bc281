"""The recording half of a logger over the native core: the recording calls in C."""

from __future__ import annotations

from typing import ClassVar, cast

from timing_logger.recording.cores.core import Core, over
from timing_logger.recording.cores.native import core
from timing_logger.recording.cores.native.core import RecordingCalls
from timing_logger.recording.device.span import DeviceBlock
from timing_logger.recording.recorder import Recorder


class NativeRecorder(RecordingCalls, Recorder):
    """A :class:`Recorder` whose recording calls, and the classes that they make, are in C."""

    _core: ClassVar[Core] = cast("Core", core)
    _device_span: ClassVar[type[DeviceBlock]] = over(DeviceBlock, core.Span)


for _name, _call in vars(RecordingCalls).items():
    if callable(_call) and not _name.startswith("__"):
        _call.__doc__ = getattr(Recorder, _name).__doc__
