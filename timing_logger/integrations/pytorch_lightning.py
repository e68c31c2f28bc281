"""Hooks for trainers of the ``pytorch_lightning`` package.

::

    from timing_logger.integrations.pytorch_lightning import TimingLoggerCallback

    trainer = pytorch_lightning.Trainer(callbacks=[TimingLoggerCallback("logs/timing")])
"""

from __future__ import annotations

from timing_logger.integrations._lightning_hooks import CallbackHooks, ProfilerActions

try:
    from pytorch_lightning import Callback
    from pytorch_lightning.profilers import Profiler
except ModuleNotFoundError as error:
    if error.name != "pytorch_lightning":
        raise
    raise ImportError(
        "pytorch_lightning is not installed: pip install pytorch_lightning, or for the lightning package "
        "pip install timing_logger[lightning] and use timing_logger.integrations.lightning.",
        name=error.name,
    ) from error

__all__ = ["TimingLoggerCallback", "TimingLoggerProfiler"]


class TimingLoggerCallback(CallbackHooks, Callback):  # noqa: D101 (that of its hooks)
    __doc__ = CallbackHooks.__doc__


class TimingLoggerProfiler(ProfilerActions, Profiler):  # noqa: D101 (that of its hooks)
    __doc__ = ProfilerActions.__doc__
