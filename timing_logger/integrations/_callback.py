"""The common base of the callbacks for all frameworks: the choice of a logger, and the open intervals."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypedDict

from timing_logger.integrations._operations import OpenOperations
from timing_logger.integrations._run_logger import RunLogger
from timing_logger.recording.logger import TimingLogger
from timing_logger.recording.options import LoggerOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack


class _Choice(TypedDict):
    """What a copy of a callback takes over."""

    _run_logger: RunLogger


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

    def __getstate__(self) -> _Choice:
        return {"_run_logger": self._run_logger}

    def __setstate__(self, state: _Choice) -> None:
        vars(self).update(state)
        self._begin_idle()
