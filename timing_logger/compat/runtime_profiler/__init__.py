"""A profiler of training loops: data, forward, backward and optimizer of each dataloader, as scalars."""

from timing_logger.compat.runtime_profiler.profiler import RuntimeProfiler

__all__ = ["RuntimeProfiler"]
