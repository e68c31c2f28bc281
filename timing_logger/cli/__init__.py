"""The command ``timing-logger``."""

from timing_logger.cli.parser import main

__all__ = ["main"]
