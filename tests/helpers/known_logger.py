"""A session of timing with a logger of the test's own."""

from __future__ import annotations

from pathlib import Path

from timing_logger import TimingLogger
from timing_logger.autologging.session import Session
from timing_logger.autologging.settings import Rank, Settings


class KnownLogger(Session):
    """A session whose logger is given, and that remembers for which ranks it was asked."""

    def __init__(self, folder: Path, logger: TimingLogger) -> None:
        super().__init__(Settings(log_dir=str(folder)))
        self._given = logger
        self.asked: list[Rank | None] = []

    def logger(self, rank: Rank | None = None) -> TimingLogger:
        self.asked.append(rank)
        return self._given
