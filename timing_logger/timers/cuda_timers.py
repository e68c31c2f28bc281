"""The module of this name in version 0.2: its names are in ``timing_logger.compat`` now."""

from __future__ import annotations

from timing_logger._moved import moved

__getattr__ = moved(__name__, "timing_logger.compat.cuda_timers")
