"""Both cores in one process, whichever of them the package records with: what tests of the core run over."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import memory_logger
import pytest

from timing_logger import TimingLogger
from timing_logger.recording import global_logger
from timing_logger.recording.logger import Logger
from timing_logger.recording.recorder import Recorder

NAMES = ("native", "python")


class BuiltCore(NamedTuple):
    """A core, and what records over it.

    Attributes:
        classes: the module with the core's classes.
        recorder, logger: the classes that take them from there.
    """

    classes: Any
    recorder: type[Recorder]
    logger: type[TimingLogger]


def _over(recorder: type[Recorder]) -> BuiltCore:
    logger: Any = TimingLogger
    if recorder._core is not TimingLogger._core:
        logger = type("TimingLogger", (recorder, Logger), {"__doc__": TimingLogger.__doc__})
    return BuiltCore(recorder._core, recorder, logger)


def _built() -> dict[str, BuiltCore]:
    found = {"python": _over(Recorder)}
    with suppress(ImportError):
        from timing_logger.recording.native_recorder import NativeRecorder

        found["native"] = _over(NativeRecorder)
    return found


CORES = _built()

needs_both = pytest.mark.skipif("native" not in CORES, reason="the native core was not built")


@pytest.fixture(params=[pytest.param(name, marks=needs_both if name == "native" else ()) for name in NAMES])
def each_core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> BuiltCore:
    """Runs the test over each core: its loggers, the one of the fixture ``logger``, and the global one."""
    core = CORES[request.param]
    for module in (memory_logger, global_logger):
        monkeypatch.setattr(module, "TimingLogger", core.logger)
    monkeypatch.setattr(request.module, "TimingLogger", core.logger, raising=False)
    return core
