"""A file that a sink made itself: written by nobody else, never reopened, only ever appended to.

Written with ``os.write`` on a descriptor: a buffered file holds a lock while it writes, which a
daemon thread may take to its grave at interpreter exit.

Others may do to it what they like: delete, move, replace or cut it, or close every descriptor of the
process. :meth:`AppendOnlyFile.trouble` sees that, and is to be asked before each ``append``.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TypeAlias

from timing_logger._descriptors import moved_up
from timing_logger.sinks import PartlyWritten

_END_OF_TORN = b"\0\n"
_CREATE = (
    os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND  # after a cut, no hole
    | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
)  # fmt: skip
_GONE = (FileNotFoundError, NotADirectoryError)
_BLOCK_BYTES = 2**20

_Identity: TypeAlias = "tuple[int, int]"  # device, inode


class AppendOnlyFile:
    """Takes whole lines, batch by batch: all of a batch is in the file, or none of it.

    Attributes:
        path: the file.
        written_bytes: its size.
        records: how many are in it.
        lost: how many were in it and no longer are, as far as :meth:`count_lost` was asked.
        why: what was done to it; "" if nothing.
    """

    def __init__(self, path: Path, *, mode: int, head: bytes) -> None:
        """Create the file, which is empty until something is appended.

        Args:
            mode: its permissions, of which the process's umask takes some.
            head: what it begins with, written before what is appended first.

        Raises:
            OSError: it cannot be made; ``FileExistsError`` if there is something of this name.
        """
        self.path = path
        self.written_bytes = self.records = self.lost = 0
        self.why = ""
        self._head = head
        self._torn = False
        self._descriptor = moved_up(os.open(path, _CREATE, mode))
        self._identity = _identity(os.fstat(self._descriptor))
        # There are file systems where a name and a descriptor of one file never agree.
        self._is_known_by_name = self.is_at(path)

    def append(self, data: bytes, n_records: int) -> None:
        """Write whole lines, ``n_records`` of them.

        Raises:
            PartlyWritten: some of them are in the file, and the rest is not.
            OSError: none of them is in the file.
        """
        # A piece of a line may stand at the end: a NUL keeps it from ever being a row.
        to_end_line = _END_OF_TORN if self._torn else b""
        before = to_end_line if self.written_bytes else self._head
        rest = memoryview(before + data)
        n_bytes = len(rest)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except BaseException as error:
            self._take_back((before + data)[: n_bytes - len(rest)], len(before), error)
            raise
        self._torn = False
        self.written_bytes += n_bytes
        self.records += n_records

    def trouble(self) -> str:
        """What was done to the file behind our back, in words; "" if it is as we left it.

        Raises:
            OSError: that cannot be found out for now.
        """
        try:
            held = os.fstat(self._descriptor)
        except OSError as error:
            if error.errno == errno.ESTALE:
                return "was deleted"
            if error.errno != errno.EBADF:
                raise
            return "had its descriptor closed"
        if _identity(held) != self._identity:
            return "had its descriptor closed, whose number another file has now"
        return self._trouble_of_name(held) or self._trouble_of_content(held)

    def _trouble_of_name(self, held: os.stat_result) -> str:
        try:
            named = os.lstat(self.path)
        except _GONE:
            return "was moved away" if held.st_nlink else "was deleted"
        except OSError:  # nobody may look for now, and the descriptor is ours
            return ""
        return "was replaced" if self._is_known_by_name and _identity(named) != self._identity else ""

    def _trouble_of_content(self, held: os.stat_result) -> str:
        if held.st_size < self.written_bytes:
            return f"was cut to {held.st_size} bytes"
        if held.st_size > self.written_bytes:
            return "was written to by somebody else"
        torn_head = self._torn and self.written_bytes < len(self._head)
        return "could not be begun" if torn_head else ""

    def is_at(self, path: Path) -> bool:
        """Whether it is this file that is called ``path``."""
        try:
            return _identity(os.lstat(path)) == self._identity
        except OSError:
            return False

    def count_lost(self, why: str) -> int:
        """Find out how many records are no longer in the file of this name; ``why`` is noted if any is.

        Returns:
            How many were found missing that had not been counted before.
        """
        n_bytes, records = self._standing()
        missing = self.records - records
        if missing:
            self.lost, self.records, self.written_bytes = self.lost + missing, records, n_bytes
            self.why = why
        return missing

    def give_up(self, why: str) -> int:
        """Count all of its records as lost; how many there were."""
        missing, self.records, self.written_bytes = self.records, 0, 0
        self.lost, self.why = self.lost + missing, why
        return missing

    def _standing(self) -> tuple[int, int]:
        """Bytes and records of ours in the file of this name; all of them, where nobody may look for now."""
        try:
            named = os.lstat(self.path)
        except _GONE:
            return 0, 0
        except OSError as error:
            return (0, 0) if error.errno == errno.ESTALE else (self.written_bytes, self.records)
        if self._is_known_by_name and _identity(named) != self._identity:
            return 0, 0
        if named.st_size >= self.written_bytes:
            return self.written_bytes, self.records
        return named.st_size, min(self.records, _lines_after(self.path, self._head))

    def sync(self) -> None:
        """Make what was written survive a crash of the machine."""
        if self._has_descriptor():
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Again is harmless, and so is a descriptor whose number somebody else has by now."""
        if self._has_descriptor():
            os.close(self._descriptor)
        self._descriptor = -1

    def _has_descriptor(self) -> bool:
        try:
            return self._descriptor >= 0 and _identity(os.fstat(self._descriptor)) == self._identity
        except OSError:
            return False

    def _take_back(self, written: bytes, n_before: int, error: BaseException) -> None:
        """Remove the part of a batch that reached the file, so that no line is torn or doubled.

        Raises:
            PartlyWritten: that cannot be done, and there are whole records in it.
        """
        try:
            if self._has_descriptor():
                os.ftruncate(self._descriptor, self.written_bytes)
        except OSError:
            records = written[n_before:].count(b"\n")
            self._torn = self._torn if not written else not written.endswith(b"\n")
            self.written_bytes += len(written)
            self.records += records
            if records:
                raise PartlyWritten(records, error) from error


def _lines_after(path: Path, head: bytes) -> int:
    """As many as can be read; without its head a file is worth nothing."""
    try:
        with path.open("rb") as file:
            if file.read(len(head)) != head:
                return 0
            return sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK_BYTES), b""))
    except OSError:
        return 0


def _identity(about: os.stat_result) -> _Identity:
    return about.st_dev, about.st_ino
