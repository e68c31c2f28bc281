"""Hooks for PyTorch Lightning.

::

    from timing_logger.integrations.lightning import TimingLoggerCallback

    trainer = lightning.Trainer(callbacks=[TimingLoggerCallback("logs/timing")])

These are for trainers of the ``lightning`` package, or, if that is not installed, of ``pytorch_lightning``.
If both are installed and you use ``pytorch_lightning``, import from
:mod:`timing_logger.integrations.pytorch_lightning`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from timing_logger.integrations._lightning_hooks import CallbackHooks, ProfilerActions

__all__ = ["TimingLoggerCallback", "TimingLoggerProfiler"]

try:
    from lightning.pytorch import Callback
    from lightning.pytorch.profilers import Profiler
except ModuleNotFoundError as error:
    if error.name not in ("lightning", "lightning.pytorch"):
        raise
    _missing: ImportError | None = error
else:
    _missing = None

if TYPE_CHECKING or _missing is None:

    class TimingLoggerCallback(CallbackHooks, Callback):  # noqa: D101 (that of its hooks)
        __doc__ = CallbackHooks.__doc__

    class TimingLoggerProfiler(ProfilerActions, Profiler):  # noqa: D101 (that of its hooks)
        __doc__ = ProfilerActions.__doc__

else:
    try:
        from timing_logger.integrations.pytorch_lightning import TimingLoggerCallback, TimingLoggerProfiler
    except ImportError as error:
        if error.name != "pytorch_lightning":
            raise
        raise ImportError(
            "neither lightning nor pytorch_lightning is installed: pip install timing_logger[lightning]."
        ) from _missing
