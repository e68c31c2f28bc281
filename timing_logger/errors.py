"""Every exception that the two packages raise.

Each message names the argument, says what is wrong with it, and says how to correct it.
"""

from __future__ import annotations


class TimingLoggerError(Exception):
    """Base class of all exceptions of these packages: ``except TimingLoggerError`` catches them all."""


class ConfigurationError(TimingLoggerError, ValueError):
    """An option is unknown, out of range, or contradicts another one."""


class LogPathError(TimingLoggerError, OSError):
    """The log directory, or a file to be created in it, cannot be used safely."""


class AlreadyInitializedError(TimingLoggerError, RuntimeError):
    """``init_timing_logger`` was called while this process already has a logger."""


class TimerNotStartedError(TimingLoggerError, RuntimeError):
    """A timer was ended that had not been started."""


class NoTimingFilesError(TimingLoggerError, FileNotFoundError):
    """There is nothing to read: the path is missing, or holds no timing file."""


class NotATimingFileError(TimingLoggerError, ValueError):
    """A file was named as a timing file but is none: its header is wrong, or it is not a regular file."""


class NotImportableError(TimingLoggerError, ValueError):
    """What is to be imported is missing, of another kind than was said, or has nothing that can be used."""


class TableError(TimingLoggerError, ValueError):
    """A table lacks a column, or something else, that an analysis requires."""


class TooLargeError(TimingLoggerError, MemoryError):
    """The rows that an analysis needs at the same time do not fit into memory."""


class FixError(TimingLoggerError, ValueError):
    """What is asked of ``what_if`` names no repair, or one that this run does not tell anything of."""


class ClusterError(TimingLoggerError, RuntimeError):
    """A Dask cluster does not answer, or cannot finish its work."""


class ReductionError(TimingLoggerError, RuntimeError):
    """The background reduction of gradients failed, here or on another rank."""


class RunSummaryError(TimingLoggerError, ValueError):
    """The summary of a run cannot be used: its file is damaged, or no program of ours wrote it."""
