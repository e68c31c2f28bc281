"""Timers and profilers of other systems, under the names and with the calls that they have there.

For a program that uses one of them already. A new program needs none: ``with logger.operation("FORWARD")``
of :class:`timing_logger.TimingLogger` times a block, and ``docs/migrating.md`` says what replaces what.

- :mod:`timing_logger.compat.region_timers`: Nanotron's timers, seconds per name
- :mod:`timing_logger.compat.cuda_timers`: KempnerForge's timers, milliseconds per region
- :mod:`timing_logger.compat.cuda_event_profiler`: operations in sampled steps, a file of JSON lines per rank
- :mod:`timing_logger.compat.runtime_profiler`: the parts of a step per dataloader, as scalars
"""

from timing_logger.compat._region_timer import REGION, RegionTimer
from timing_logger.compat.cuda_event_profiler import CudaEventProfiler, CudaEventProfilerConfig
from timing_logger.compat.cuda_timers import CUDATimer, CUDATimerCollection
from timing_logger.compat.region_timers import RegionTimers, region_timer
from timing_logger.compat.runtime_profiler import RuntimeProfiler

__all__ = [
    "REGION",
    "CUDATimer",
    "CUDATimerCollection",
    "CudaEventProfiler",
    "CudaEventProfilerConfig",
    "RegionTimer",
    "RegionTimers",
    "RuntimeProfiler",
    "region_timer",
]
