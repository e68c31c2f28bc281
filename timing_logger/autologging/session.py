"""The logger of a process that is timed without a change of its code, and what went wrong with that."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from timing_logger.autologging.settings import Rank, Settings, hang_after_s, note_problem, stated_rank
from timing_logger.recording.global_logger import get_timing_logger, lend_timing_logger
from timing_logger.recording.logger import TimingLogger

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class Session:
    """Starts the logger when the process first does what only ranks do, and never gets in its way.

    A process is a rank once it makes a process group, initialises MPI or takes a step of an optimizer; or if
    its launcher says so, and it is neither a launcher itself nor a child of a rank (``set_up.py``).
    Launchers, workers of a data loader and compilers do none of it, and are left alone.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._logger: TimingLogger | None = None
        self._starting = threading.RLock()
        self.broken = False

    def logger(self, rank: Rank | None = None) -> TimingLogger:
        """Return the process's logger, which the first call starts.

        Args:
            rank: which rank this process is, where its launcher does not say so; default rank 0.

        Raises:
            ConfigurationError, LogPathError: as raised by ``TimingLogger``.
        """
        with self._starting:
            if self._logger is None:
                own = get_timing_logger()
                self._logger = own if own.enabled else self._started(stated_rank() or rank or Rank(0, None))
            return self._logger

    @property
    def has_logger(self) -> bool:
        """Whether the logger was started."""
        return self._logger is not None

    def _started(self, rank: Rank) -> TimingLogger:
        logger = TimingLogger(
            rank.rank,
            self.settings.log_dir,
            world_size=rank.world_size,
            record_every_n_steps=self.settings.every,
            hang_after=hang_after_s(),
            pause_rows=True,
            host_counters=self.settings.host_counters,
            stack_samples=self.settings.stack_samples,
        )
        lend_timing_logger(logger)
        return logger

    def harmless(self, function: FunctionT) -> FunctionT:
        """Return ``function`` so that it returns None where it would raise, and does nothing from then on."""

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            if self.broken:
                return None
            try:
                return function(*args, **kwargs)
            except Exception:
                self.give_up()
                return None

        return cast("FunctionT", guarded)

    def give_up(self) -> None:
        """Time nothing from now on; a file of the log folder has the exception that is being handled."""
        self.broken = True
        note_problem(self.settings.log_dir)
