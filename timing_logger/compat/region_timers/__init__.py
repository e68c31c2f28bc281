"""Nanotron's timers: named regions of a program, how often each ran, and how long it took."""

from timing_logger.compat.region_timers._timer import REGION, RegionTimer
from timing_logger.compat.region_timers.registry import RegionTimers, region_timer

__all__ = ["REGION", "RegionTimer", "RegionTimers", "region_timer"]
