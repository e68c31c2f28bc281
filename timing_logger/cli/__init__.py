"""The command-line program ``timing-logger``."""

from timing_logger.cli.parser import main

__all__ = ["main"]
