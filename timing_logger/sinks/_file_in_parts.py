"""The output of one process, in one file or in several consecutive ones, which are its parts.

A new part begins when the last one has reached its maximum size, or when it was changed from outside: nothing
is ever written into a file that may belong to another process by then.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable
from pathlib import Path

from timing_logger.errors import LogPathError
from timing_logger.process.shared_files import make_folder
from timing_logger.schema.defaults import FILE_MODE
from timing_logger.schema.sidecar import FilePart
from timing_logger.sinks._append_only_file import AppendOnlyFile


class FileInParts:
    """A file of whole lines that continues in a new part where necessary.

    Attributes:
        path: the first file.
        incarnation: 1 if its name was free at the first try, 2 at the second, and so on. It grows later if
            the folder was emptied and another process took the names.
        lost: the number of records that were written and are in no file any more.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        name: Callable[[int, int], str],
        *,
        argument: str,
        taken: Callable[[Path], bool],
        claimed: Callable[[Path], bool | None] = lambda first: None,
        head: bytes = b"",
        mode: int = FILE_MODE,
        max_bytes: float | None = None,
    ) -> None:
        """Create the first free file, and the folder if it is missing.

        Args:
            name: returns the file's name for an incarnation and a part.
            argument: the name of the user's argument for ``folder``, for messages.
            taken: whether the path of a first part is not free; see :func:`is_taken`.
            claimed: whether a file beside the path of the first part shows that it belongs to another
                process; None if there is no such information.
            head: the beginning of each file.
            mode: permissions of the files, from which the process's umask is subtracted.
            max_bytes: the size at which a file is followed by the next part; None for no limit.

        Raises:
            LogPathError: the folder or a file name in it is taken by something other than a folder or a
                regular file, or cannot be written.
        """
        self._folder = _usable_folder(folder, argument)
        self._name, self._taken, self._claimed = name, taken, claimed
        self._head, self._mode, self._max_bytes = head, mode, max_bytes or math.inf
        self.is_limited = max_bytes is not None
        self.lost = 0
        self._current: AppendOnlyFile | None
        self._number = 1
        self._left: list[AppendOnlyFile] = []  # earlier parts, some of which may still be open
        self._unclosed: list[AppendOnlyFile] = []
        self._notices: list[str] = []
        try:
            self.incarnation, first = self._first_free(1)
            first.append(b"", 0)
        except _Misplaced as error:
            raise LogPathError(f"{argument}: {error}") from None
        except OSError as error:
            raise LogPathError(
                f"{argument}={str(self._folder)!r}: no file can be made in it: {error}."
            ) from error
        self._current, self.path = first, first.path

    @property
    def parts(self) -> list[FilePart]:
        """All files of this incarnation, as :class:`FilePart`."""
        files = [*self._left, *([self._current] if self._current else [])]
        return [
            FilePart(file.path.name, file.records, file.written_bytes, file.lost, file.why) for file in files
        ]

    @property
    def written_bytes(self) -> int:
        """The size of all files together, in bytes."""
        return sum(part.bytes for part in self.parts)

    def append(self, data: bytes, n_records: int) -> None:
        """Write ``data``, ``n_records`` whole lines, into a file that certainly belongs to this process.

        Raises:
            PartlyWritten: some of the records are in a file, and the rest are not.
            OSError: none of them is in a file.
        """
        self._look()
        if self._current is not None and self._current.written_bytes >= self._max_bytes:
            self._leave_current()
        if self._current is None:
            self._current = self._next_part()
        self._current.append(data, n_records)

    def append_by(self, write: Callable[[int, int, int, int], tuple[int, int, bool]]) -> int:
        """Have ``write`` append to the current file unless its size is limited: see :class:`AppendOnlyFile`.

        Raises:
            OSError: what was done to the file cannot be determined for now.
        """
        self._look()
        return 0 if self.is_limited or self._current is None else self._current.append_by(write)

    def look_after(self) -> list[str]:
        """Check whether all files are still as they were written, and close earlier parts.

        Returns:
            Messages about what was found since the last call.

        Raises:
            OSError: it cannot be determined for now.
        """
        self._look()
        while self._unclosed:
            self._unclosed.pop().close()
        notices, self._notices = self._notices, []
        return notices

    def sync(self) -> None:
        """Make everything that was written survive a crash of the machine."""
        for file in (*self._unclosed, *([self._current] if self._current else [])):
            file.sync()

    def close(self) -> None:
        """Close all files. Calling it again is harmless."""
        for file in (*self._unclosed, *([self._current] if self._current else [])):
            file.close()

    # -- changes from outside -----------------------------------------------------------------------

    def _look(self) -> None:
        if self._current is not None and (why := self._current.trouble()):
            was = self._current
            self._leave_current()
            self._count_lost(was, why)
        if self._current is None and self._names_are_taken():
            self._take_other_names()

    def _leave_current(self) -> None:
        """End the current part. It stays open until it can be synced."""
        if self._current is not None:
            self._left.append(self._current)
            self._unclosed.append(self._current)
            self._current = None

    def _count_lost(self, was: AppendOnlyFile, why: str) -> None:
        """Count the lost records of all parts: when one part is deleted, often all are."""
        missing = was.count_lost(why)
        was.why = why
        missing += sum(file.count_lost("was deleted, moved away or cut") for file in self._left)
        self._note(f"{was.path.name} {why}", missing)

    def _note(self, what: str, missing: int) -> None:
        self.lost += missing
        rows = f"{missing} rows that had been written are in no file of this process any more"
        self._notices.append(f"{what}: {rows if missing else 'no row is lost'}; the next go into a new file")

    def _names_are_taken(self) -> bool:
        """Tell whether another process uses the file names now.

        A new part of this process would then look like one of the other's.
        """
        first = self._folder / self._name(self.incarnation, 1)
        claimed = self._claimed(first)
        if claimed is None:
            return os.path.lexists(first) and not any(file.is_at(first) for file in self._left)
        return claimed

    def _take_other_names(self) -> None:
        """Move to the next free incarnation at once, so that the sidecar beside the file moves, too."""
        missing = sum(file.give_up("belongs to another process") for file in self._left)
        self.incarnation, self._current = self._first_free(self.incarnation + 1)
        self._number = 1
        self._left.clear()
        other = self._current.path.name
        self._note(f"another process has taken the names of our files, and {other} is the next", missing)

    # -- the next file ----------------------------------------------------------------------------------

    def _first_free(self, incarnation: int) -> tuple[int, AppendOnlyFile]:
        while True:
            path = self._folder / self._name(incarnation, 1)
            if not self._taken(path) and not os.path.lexists(self._folder / self._name(incarnation, 2)):
                try:
                    return incarnation, self._made(path)
                except FileExistsError:
                    pass  # another process with this name was faster
            incarnation += 1

    def _next_part(self) -> AppendOnlyFile:
        make_folder(self._folder)
        while True:
            self._number += 1
            try:
                return self._made(self._folder / self._name(self.incarnation, self._number))
            except FileExistsError:
                pass  # the file may belong to another process
            except OSError:
                self._number -= 1
                raise

    def _made(self, path: Path) -> AppendOnlyFile:
        return AppendOnlyFile(path, mode=self._mode, head=self._head)


def is_taken(path: Path) -> bool:
    """Tell whether there is a file at ``path``; for ``taken`` of :class:`FileInParts`.

    Raises:
        OSError: there is something that is no regular file, and so not from an earlier run.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(mode):
        raise _Misplaced(path, "regular file")
    return True


class _Misplaced(OSError):
    """The path is occupied by something of another kind than the one needed."""

    def __init__(self, path: Path, wanted: str) -> None:
        kinds = {stat.S_ISLNK: "a symbolic link", stat.S_ISFIFO: "a FIFO", stat.S_ISDIR: "a directory",
                 stat.S_ISREG: "a file", stat.S_ISSOCK: "a socket"}  # fmt: skip
        mode = path.lstat().st_mode
        found = next((name for is_kind, name in kinds.items() if is_kind(mode)), "a device")
        super().__init__(f"{str(path)!r} is {found}, not a {wanted}. Remove it or name another folder.")


def _usable_folder(given: str | os.PathLike[str], argument: str) -> Path:
    try:
        folder = Path(given).absolute()  # a later change of the working directory must not move the files
    except TypeError:
        raise LogPathError(f"{argument} must be a path, and is {given!r}.") from None
    try:
        make_folder(folder)
        mode = folder.lstat().st_mode
    except (FileExistsError, NotADirectoryError):
        misplaced = next((path for path in (folder, *folder.parents) if os.path.lexists(path)), folder)
        raise LogPathError(f"{argument}: {_Misplaced(misplaced, 'directory')}") from None
    except (OSError, ValueError) as error:
        raise LogPathError(f"{argument}={str(folder)!r} cannot be made: {error}.") from error
    if not stat.S_ISDIR(mode):
        raise LogPathError(f"{argument}: {_Misplaced(folder, 'directory')}")
    return folder
