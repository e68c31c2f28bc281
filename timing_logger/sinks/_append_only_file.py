"""A file that a sink created itself: written by this process only, never reopened, only appended to.

It is written with ``os.write`` on a descriptor, because a buffered file holds a lock while it writes. At
interpreter exit a daemon thread may be stopped while it holds that lock.

Other code may delete, move, replace or cut the file, or close every descriptor of the process.
:meth:`AppendOnlyFile.trouble` detects that, and is to be called before each ``append``.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from timing_logger.process.shared_files import create, cut, opened
from timing_logger.sinks import PartlyWritten

_END_OF_TORN = b"\0\n"
_APPEND = os.O_WRONLY | os.O_APPEND  # appending leaves no hole after a cut
_GONE = (FileNotFoundError, NotADirectoryError)
_BLOCK_BYTES = 2**20
_MOST_NUMBERS = 4096

_Identity: TypeAlias = "tuple[int, int]"  # device, inode


class AppendOnlyFile:
    """A file that takes whole lines, batch by batch: all of a batch is in the file, or none of it.

    Attributes:
        path: the path of the file.
        written_bytes: the size of the file in bytes.
        records: the number of records in it.
        lost: the number of records that were in it and no longer are, as of the last :meth:`count_lost`.
        why: what was done to the file from outside; "" if nothing.
    """

    def __init__(self, path: Path, *, mode: int, head: bytes) -> None:
        """Create the file, which is empty until something is appended.

        Args:
            mode: the permissions of the file, from which the process's umask is subtracted.
            head: the beginning of the file, written before the first appended data.

        Raises:
            OSError: the file cannot be created; ``FileExistsError`` if the name is taken.
        """
        self.path = path
        self.written_bytes = self.records = self.lost = 0
        self.why = ""
        self._head = head
        self._torn = False
        self._descriptor = _moved_up(create(path, mode, _APPEND))
        self._identity = _identity(os.fstat(self._descriptor))
        # On some file systems the identities of a name and a descriptor of one file never agree.
        self._is_known_by_name = self.is_at(path)

    def append(self, data: bytes, n_records: int) -> None:
        """Write ``data``, which consists of ``n_records`` whole lines.

        Raises:
            PartlyWritten: some of the records are in the file, and the rest are not.
            OSError: none of them is in the file.
        """
        # The file may end in the fragment of a line: a NUL prevents it from being read as a row.
        to_end_line = _END_OF_TORN if self._torn else b""
        before = to_end_line if self.written_bytes else self._head
        rest = memoryview(before + data if before else data)
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

    def append_by(self, write: Callable[[int, int, int, int], tuple[int, int, bool]]) -> int:
        """Have ``write`` append whole lines, if the file has a head and ends in a whole line.

        Args:
            write: is given the descriptor, the device, the inode and the size; returns how many records it
                wrote, the size after them, and whether the last line is torn. It writes nothing if the file
                is another one by now, or not of that size.

        Returns:
            The number of records.
        """
        if self._torn or not self.written_bytes:
            return 0
        records, self.written_bytes, self._torn = write(self._descriptor, *self._identity, self.written_bytes)
        self.records += records
        return records

    def trouble(self) -> str:
        """Return what was done to the file from outside, in words; "" if it is unchanged.

        Raises:
            OSError: it cannot be determined for now.
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
        except OSError:  # the name cannot be looked up for now, but the descriptor is still this file's
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
        """Tell whether ``path`` is the name of this file."""
        try:
            return _identity(os.lstat(path)) == self._identity
        except OSError:
            return False

    def count_lost(self, why: str) -> int:
        """Count the records that are no longer in the file of this name, and note ``why`` if any is missing.

        Returns:
            The number of missing records that had not been counted before.
        """
        n_bytes, records = self._standing()
        missing = self.records - records
        if missing:
            self.lost, self.records, self.written_bytes = self.lost + missing, records, n_bytes
            self.why = why
        return missing

    def give_up(self, why: str) -> int:
        """Count all records of the file as lost, and return how many there were."""
        missing, self.records, self.written_bytes = self.records, 0, 0
        self.lost, self.why = self.lost + missing, why
        return missing

    def _standing(self) -> tuple[int, int]:
        """Return how many bytes and records are still in the file of this name.

        If it cannot be looked up for now, all of them are.
        """
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
        """Make everything that was written survive a crash of the machine."""
        if self._has_descriptor():
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the descriptor, unless other code has closed it already and its number is another file's.

        Calling it again is harmless.
        """
        if self._has_descriptor():
            os.close(self._descriptor)
        self._descriptor = -1

    def _has_descriptor(self) -> bool:
        try:
            return _identity(os.fstat(self._descriptor)) == self._identity
        except OSError:
            return False

    def _take_back(self, written: bytes, n_before: int, error: BaseException) -> None:
        """Remove the part of a batch that reached the file, so that no line is torn or duplicated.

        Raises:
            PartlyWritten: it cannot be removed, and it contains whole records.
        """
        try:
            if self._has_descriptor():
                cut(self._descriptor, self.written_bytes)
        except OSError:
            records = written[n_before:].count(b"\n")
            self._torn = self._torn if not written else not written.endswith(b"\n")
            self.written_bytes += len(written)
            self.records += records
            if records:
                raise PartlyWritten(records, error) from error


def _lines_after(path: Path, head: bytes) -> int:
    """Return the number of lines after the head; 0 if the file cannot be read, or its head is damaged."""
    try:
        with opened(path) as file:
            if file.read(len(head)) != head:
                return 0
            return sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK_BYTES), b""))
    except OSError:
        return 0


def _identity(about: os.stat_result) -> _Identity:
    return about.st_dev, about.st_ino


def _moved_up(descriptor: int) -> int:
    """Move an open file to a high descriptor number and return that number.

    The kernel gives out the lowest free number first. Other code may close all descriptors and open files of
    its own; a file at a low number could then be another one when it is written to.

    Returns:
        A descriptor of the last 64 that the limit of the process allows, of 4096 at most, for the same file;
        the old one is closed. Where the system has no such numbers, the old one, still open.
    """
    try:
        import fcntl
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # The kernel's table of a process takes 8 bytes for each number up to the highest in use.
        high = (_MOST_NUMBERS if limit < 0 else min(limit, _MOST_NUMBERS)) - 64
        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, high)
    except (ImportError, OSError):  # not a POSIX system, or all of these numbers are taken
        return descriptor
    os.close(descriptor)
    return moved
