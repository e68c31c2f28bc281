"""Read timing files into one table."""

from timing_logger.reading.timings import read_timings

__all__ = ["read_timings"]
