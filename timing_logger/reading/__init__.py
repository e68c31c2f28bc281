"""Read timing files, and what stands beside them, into one table each."""

from timing_logger.reading.beside import read_stack_samples
from timing_logger.reading.host_rows import read_host_counters
from timing_logger.reading.timings import read_timings

__all__ = ["read_host_counters", "read_stack_samples", "read_timings"]
