"""Every exception of both packages.

Each message names the argument, says what was wrong with it and gives the way out.
"""

from __future__ import annotations


class TimingLoggerError(Exception):
    """Base class: ``except TimingLoggerError`` catches whatever these packages raise."""


class ConfigurationError(TimingLoggerError, ValueError):
    """An option is unknown, out of range, or contradicts another one."""


class LogPathError(TimingLoggerError, OSError):
    """The log directory, or a file to be made in it, cannot be used safely."""


class AlreadyInitializedError(TimingLoggerError, RuntimeError):
    """``init_timing_logger`` was called while this process already has a logger."""


class TimerNotStartedError(TimingLoggerError, RuntimeError):
    """A timer was ended that was not started."""


class NoTimingFilesError(TimingLoggerError, FileNotFoundError):
    """Nothing to read: the path is missing, or holds no timing file."""


class NotATimingFileError(TimingLoggerError, ValueError):
    """A file was named as a timing file, and its header says that it is something else."""


class TableError(TimingLoggerError, ValueError):
    """A table lacks what an analysis cannot do without."""


class TooLargeError(TimingLoggerError, MemoryError):
    """The rows that an analysis needs together do not fit into memory."""


class ReductionError(TimingLoggerError, RuntimeError):
    """The background reduction of gradients failed, here or on another rank."""
