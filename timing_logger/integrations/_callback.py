"""The common base of the callbacks for all frameworks: the choice of a logger, and the open intervals."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, ClassVar

from timing_logger.errors import AlreadyInitializedError, ConfigurationError
from timing_logger.integrations._operations import OpenOperations
from timing_logger.recording.global_logger import (
    get_timing_logger,
    init_timing_logger,
    shutdown_timing_logger,
)
from timing_logger.recording.logger import TimingLogger
from timing_logger.recording.options import LoggerOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

DEFAULT_LOG_DIR = "logs/timing"


class RunLogger:
    """Opens a logger when a training begins, and closes it at the end if it opened it.

    The logger is the first of these: the one that the user gave; the process's own, if there is one and no
    ``log_dir`` was given; a new one, which becomes the process's unless there is one already.

    Args:
        log_dir: see :class:`~timing_logger.TimingLogger`; None for the process's logger, or else
            ``logs/timing``.
        timing_logger: a logger to use and leave open.
        options: those of :class:`~timing_logger.TimingLogger`, for a new logger.

    Raises:
        ConfigurationError: an option is unknown, out of range, or contradicts ``timing_logger``.
    """

    _opened_for_process: ClassVar[tuple[weakref.ref[TimingLogger], weakref.ref[object]] | None] = None

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None,
        timing_logger: TimingLogger | None,
        options: LoggerOptions,
    ) -> None:
        if timing_logger is not None and (log_dir is not None or options):
            raise ConfigurationError(
                "timing_logger was given together with options of a new logger "
                f"({', '.join(['log_dir'] * (log_dir is not None) + list(options))}): give one or the other."
            )
        _check(options)
        self._log_dir = log_dir
        self._options = options.copy()
        self._given = timing_logger
        self._may_open = timing_logger is None
        self._opened: TimingLogger | None = None
        self._borrowed: TimingLogger | None = None

    def open(self, rank: int, world_size: int, run: object) -> TimingLogger:
        """Return the logger of this process for a training that begins now.

        A logger that another training opened for the process and never closed, because it was interrupted, is
        closed now.

        Args:
            run: identifies the training: the same object for all its callbacks.

        Raises:
            ConfigurationError: there are options for a new logger, and the process has one.
            LogPathError: as raised by :class:`~timing_logger.TimingLogger`.
        """
        self.close()  # in case the previous training never reported its end
        _close_abandoned(run)
        if not self._may_open:
            return self._borrow(self._given or get_timing_logger())
        log_dir = DEFAULT_LOG_DIR if self._log_dir is None else self._log_dir
        options: LoggerOptions = {"world_size": world_size, **self._options}
        try:
            self._opened = init_timing_logger(rank, log_dir, **options)
            RunLogger._opened_for_process = weakref.ref(self._opened), weakref.ref(run)
        except AlreadyInitializedError:
            if self._log_dir is None:
                return self._borrow(self._process_logger())
            self._opened = TimingLogger(rank, log_dir, **options)
        return self._opened

    def close(self) -> None:
        """Close the logger if it was opened here; otherwise only write its waiting records.

        Calling it again is harmless.
        """
        opened, self._opened = self._opened, None
        borrowed, self._borrowed = self._borrowed, None
        if opened is not None and opened is get_timing_logger():
            shutdown_timing_logger()
        elif opened is not None:
            opened.close()
        if borrowed is not None:
            borrowed.flush()

    def _borrow(self, logger: TimingLogger) -> TimingLogger:
        self._borrowed = logger
        return logger

    def _process_logger(self) -> TimingLogger:
        logger = get_timing_logger()
        if self._options:
            raise ConfigurationError(
                f"{', '.join(self._options)}: this process has {logger!r} already, and these are options "
                "of a new one. Give them to init_timing_logger, or give the callback a log_dir of its own."
            )
        return logger

    def __deepcopy__(self, memo: dict[int, object]) -> RunLogger:
        copy = RunLogger(self._log_dir, None, self._options)
        copy._given, copy._may_open = self._given, self._may_open
        return copy

    def __getstate__(self) -> dict[str, object]:
        """Return the state without loggers; in another process, that process's own replaces a given one."""
        return {**vars(self), "_given": None, "_opened": None, "_borrowed": None}


def _close_abandoned(run: object) -> None:
    """Shut down the process's logger if a callback opened it for another training than ``run``."""
    if RunLogger._opened_for_process is not None:
        logger, other_run = (reference() for reference in RunLogger._opened_for_process)
        if logger is not None and logger is get_timing_logger() and other_run is not run:
            shutdown_timing_logger()


def _check(options: LoggerOptions) -> None:
    """Refuse invalid options where they are given, and not only when the training begins."""
    for name in ("rank", "world_size"):
        if name in options:
            raise ConfigurationError(f"{name} is what the trainer says it is: leave it out.")
    off: LoggerOptions = {**options, "enabled": False}
    try:
        TimingLogger(0, **off)
    except TypeError as error:
        raise ConfigurationError(f"unknown option, see TimingLogger for those there are: {error}.") from error


class FrameworkCallback:
    """Keeps the user's choice of a logger, and the parts of a step that are open.

    A copy, in this process or another one, starts with the same choice and nothing open. Other attributes
    that a framework attaches to a callback (Lightning: methods of the model) are not copied.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        *,
        timing_logger: TimingLogger | None = None,
        **options: Unpack[LoggerOptions],
    ) -> None:
        self._run_logger = RunLogger(log_dir, timing_logger, options)
        self._begin_idle()

    def _begin_idle(self) -> None:
        self._operations = OpenOperations()

    def __getstate__(self) -> dict[str, RunLogger]:
        return {"_run_logger": self._run_logger}

    def __setstate__(self, state: dict[str, RunLogger]) -> None:
        vars(self).update(state)
        self._begin_idle()
