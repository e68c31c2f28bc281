"""Receivers of events in this process and on this machine: a file of the log folder, and a function."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path

from timing_logger.live.delivery import NotDelivered
from timing_logger.live.events import Event, event_line
from timing_logger.process.shared_files import create, cut, open_owned, owner_of
from timing_logger.schema.defaults import FILE_MODE

FILE_NAME = "verdicts.jsonl"

_APPEND = os.O_RDWR | os.O_APPEND  # it is read, too: how it ends


class VerdictsFile:
    """``verdicts.jsonl`` in the folder of a run: a line for each event.

    A line is in the file as a whole, or not at all. The file is opened for each of them: there are few, and
    a file that somebody moved away is begun again. Only one process writes to it.

    Args:
        folder: the folder of the timing files. It is not made again if it vanishes.
        file_mode: the permissions of a new file, from which the process's umask is subtracted.
    """

    retries = 5

    def __init__(self, folder: Path, file_mode: int = FILE_MODE) -> None:
        self.path = folder / FILE_NAME
        self._mode = file_mode

    @property
    def name(self) -> str:
        """The file, with its path."""
        return f"the file {str(self.path)!r}"

    def receive(self, event: Event) -> None:
        """Append an event.

        Raises:
            NotDelivered: it cannot be written now.
        """
        try:
            descriptor = _opened(self.path, self._mode)
            try:
                _append(descriptor, event_line(event).encode() + b"\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise NotDelivered(error.strerror or type(error).__name__, may_later=True) from None


class Callback:
    """A function that is called with each event.

    Args:
        function: gets an event of its own, in a thread of its own. What it raises is said, and the event is
            not offered again.
    """

    retries = 0

    def __init__(self, function: Callable[[Event], object]) -> None:
        self._function = function

    @property
    def name(self) -> str:
        """The function's name."""
        return f"the function {getattr(self._function, '__qualname__', type(self._function).__name__)}"

    def receive(self, event: Event) -> None:
        """Call the function."""
        self._function(copy.deepcopy(event))


def _opened(path: Path, mode: int) -> int:
    """Open a regular file, or create it; a link, a FIFO or a device is not even opened."""
    try:
        return open_owned(path, owner_of(path), _APPEND)
    except FileNotFoundError:
        return create(path, mode, _APPEND)


def _append(descriptor: int, line: bytes) -> None:
    """Append a whole line, on a line of its own whatever is there; or none of it."""
    size = os.fstat(descriptor).st_size
    is_torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"  # its writer was killed
    rest = memoryview(b"\n" + line if is_torn else line)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        cut(descriptor, size)
        raise
