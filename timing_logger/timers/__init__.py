"""Timers for regions of a program; for rows of communication see :class:`timing_logger.TimingLogger`."""

from timing_logger.timers.cuda_timers import CUDATimer, CUDATimerCollection
from timing_logger.timers.regions import REGION, RegionTimer, RegionTimers, region_timer

__all__ = ["REGION", "CUDATimer", "CUDATimerCollection", "RegionTimer", "RegionTimers", "region_timer"]
