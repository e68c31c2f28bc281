"""A file that a sink made itself: written by nobody else, never reopened, only ever appended to.

Written with ``os.write`` on a descriptor: a buffered file holds a lock while it writes, which a
daemon thread may take to its grave at interpreter exit.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from timing_logger.errors import LogPathError
from timing_logger.sinks import PartlyWritten

_END_OF_TORN = b"\0\n"
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class AppendOnlyFile:
    """Takes whole lines, batch by batch: all of a batch is in the file, or none of it.

    Attributes:
        path: the file.
        incarnation: 1 if its name was free at the first try, 2 at the second, ...
        written_bytes: its size.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        name: Callable[[int], str],
        *,
        argument: str,
        taken: Callable[[Path], bool],
        head: bytes = b"",
    ) -> None:
        """Create the first free file, and the folder if need be.

        Args:
            name: the file's name in an incarnation.
            argument: what the user knows ``folder`` as.
            taken: whether a path is not free; see :func:`is_taken`.
            head: what the file begins with.

        Raises:
            LogPathError: the folder or a file name in it is taken by something else than a folder
                or a regular file, or cannot be written.
        """
        usable = _usable_folder(folder, argument)
        self.written_bytes = 0
        self._torn = False
        try:
            self.path, self.incarnation, self._descriptor = _create_first_free(usable, name, taken)
            self.append(head)
        except _Misplaced as error:
            raise LogPathError(f"{argument}: {error}") from None
        except OSError as error:
            raise LogPathError(f"{argument}={str(usable)!r}: no file can be made in it: {error}.") from error

    def append(self, data: bytes) -> None:
        """Write whole lines.

        Raises:
            PartlyWritten: some of them are in the file, and the rest is not.
            OSError: none of them is in the file.
        """
        if self._torn:  # a piece of a line stands at the end: a NUL keeps it from ever being a row
            data = _END_OF_TORN + data
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except BaseException as error:
            self._take_back(data[: len(data) - len(rest)], error)
            raise
        self._torn = False
        self.written_bytes += len(data)

    def sync(self) -> None:
        """Make what was written survive a crash of the machine."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Again is harmless."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def _take_back(self, written: bytes, error: BaseException) -> None:
        """Remove the part of a batch that reached the file, so that no line is torn or doubled.

        Raises:
            PartlyWritten: that cannot be done, and there are whole lines in it.
        """
        try:
            os.ftruncate(self._descriptor, self.written_bytes)
            os.lseek(self._descriptor, self.written_bytes, os.SEEK_SET)
        except OSError:
            lines = written.count(b"\n") - (self._torn and written.startswith(_END_OF_TORN))
            self._torn = self._torn if not written else not written.endswith(b"\n")
            self.written_bytes += len(written)
            if lines:
                raise PartlyWritten(lines, error) from error


def _create_first_free(
    folder: Path, name: Callable[[int], str], taken: Callable[[Path], bool]
) -> tuple[Path, int, int]:
    incarnation = 1
    while True:
        path = folder / name(incarnation)
        if not taken(path):
            try:
                return path, incarnation, os.open(path, _CREATE, 0o644)
            except FileExistsError:
                pass  # another process with this name was faster
        incarnation += 1


def is_taken(path: Path) -> bool:
    """Whether there is a file at ``path``; for ``taken`` of :class:`AppendOnlyFile`.

    Raises:
        OSError: there is something that no earlier run can have left.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(mode):
        raise _Misplaced(path, "regular file")
    return True


class _Misplaced(OSError):
    """There is something else at a path than what was wanted there."""

    def __init__(self, path: Path, wanted: str) -> None:
        kinds = {stat.S_ISLNK: "a symbolic link", stat.S_ISFIFO: "a FIFO", stat.S_ISDIR: "a directory",
                 stat.S_ISREG: "a file", stat.S_ISSOCK: "a socket"}  # fmt: skip
        mode = path.lstat().st_mode
        found = next((name for is_kind, name in kinds.items() if is_kind(mode)), "a device")
        super().__init__(f"{str(path)!r} is {found}, not a {wanted}. Remove it or name another folder.")


def _usable_folder(given: str | os.PathLike[str], argument: str) -> Path:
    try:
        folder = Path(given).absolute()  # whoever changes the process's folder must not move its files
    except TypeError:
        raise LogPathError(f"{argument} must be a path, and is {given!r}.") from None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(exist_ok=True)
        mode = folder.lstat().st_mode
    except (FileExistsError, NotADirectoryError):
        misplaced = next((path for path in (folder, *folder.parents) if os.path.lexists(path)), folder)
        raise LogPathError(f"{argument}: {_Misplaced(misplaced, 'directory')}") from None
    except (OSError, ValueError) as error:
        raise LogPathError(f"{argument}={str(folder)!r} cannot be made: {error}.") from error
    if not stat.S_ISDIR(mode):
        raise LogPathError(f"{argument}: {_Misplaced(folder, 'directory')}")
    return folder
