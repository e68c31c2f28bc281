"""The classes of the core that this process records with; ``timing_logger.process.which_core`` chooses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timing_logger.errors import ConfigurationError
from timing_logger.process.which_core import NAME as NAME
from timing_logger.schema.ring_file import SLOT_BYTES

if TYPE_CHECKING or NAME == "python":
    from timing_logger.recording.cores.python import core
else:
    from timing_logger.recording.cores.native import core

BackgroundSpan = core.BackgroundSpan
Channel = core.Channel
CollectiveCount = core.CollectiveCount
LearnSize = core.LearnSize
SmallFiles = core.SmallFiles
Span = core.Span
TimedGroup = core.TimedGroup
Unrecorded = core.Unrecorded
completing_method = core.completing_method
handle_class = core.handle_class
issued_method = core.issued_method


MOST_RECORDS = 2**36
"""A longer queue would hold no more: there is no memory for it."""


def new_channel(capacity: int, kind: type[Channel] = Channel) -> Channel:
    """Return a channel for at most ``capacity`` records, of the core in use or of class ``kind``.

    Raises:
        ConfigurationError: the system refuses the memory.
    """
    try:
        return kind(min(capacity, MOST_RECORDS))
    except MemoryError as error:
        raise ConfigurationError(
            f"maxsize={capacity}: {error}. Each takes {SLOT_BYTES} bytes of address space: choose a smaller "
            "maxsize, or raise the process's limit."
        ) from error
