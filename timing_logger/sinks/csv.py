"""The timing file: one per rank and process incarnation, made by nobody else, never reopened.

Written with ``os.write`` on a descriptor: a buffered file holds a lock while it writes, which a
daemon thread may take to its grave at interpreter exit.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from timing_logger.errors import LogPathError
from timing_logger.record import HEADER, RawRecord, format_records
from timing_logger.run_info import TimingFile, sidecar_path

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class CsvSink:
    """Appends lines to a file that it created.

    Attributes:
        path: the file.
        name: rank and incarnation, as the file name states them.
        written_bytes: size of the file, header included.
    """

    def __init__(self, log_dir: str | os.PathLike[str], rank: int) -> None:
        """Create the first free file of ``rank`` in ``log_dir``, and the folder if need be.

        Raises:
            LogPathError: the folder or a file name in it is taken by something else than a folder
                or a regular file, or cannot be written.
        """
        folder = _usable_folder(log_dir)
        self.written_bytes = 0
        self._torn = False
        try:
            self.name, self._descriptor = _create_first_free(folder, rank)
            self._append(HEADER.encode())
        except LogPathError:
            raise
        except OSError as error:
            raise LogPathError(f"log_dir={str(folder)!r}: no file can be made in it: {error}.") from error
        self.path = folder / self.name.name

    def write(self, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        self._append(format_records(batch, wall_offset_ns).encode())

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def _append(self, data: bytes) -> None:
        if self._torn:  # a piece of a line stands at the end: a NUL keeps it from ever being a row
            data = b"\0\n" + data
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except BaseException:
            self._take_back(len(data) - len(rest))
            raise
        self._torn = False
        self.written_bytes += len(data)

    def _take_back(self, half_written_bytes: int) -> None:
        """Remove the part of a batch that reached the file, so that no line is torn or doubled."""
        try:
            os.ftruncate(self._descriptor, self.written_bytes)
            os.lseek(self._descriptor, self.written_bytes, os.SEEK_SET)
        except OSError:
            self._torn = half_written_bytes > 0
            self.written_bytes += half_written_bytes


def _usable_folder(log_dir: str | os.PathLike[str]) -> Path:
    try:
        folder = Path(log_dir)
    except TypeError:
        raise LogPathError(f"log_dir must be a path, and is {log_dir!r}.") from None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(exist_ok=True)
        mode = folder.lstat().st_mode
    except FileExistsError:
        raise LogPathError(_taken("log_dir", folder, "directory")) from None
    except (OSError, ValueError) as error:
        raise LogPathError(f"log_dir={str(folder)!r} cannot be made: {error}.") from error
    if not stat.S_ISDIR(mode):
        raise LogPathError(_taken("log_dir", folder, "directory"))
    return folder


def _create_first_free(folder: Path, rank: int) -> tuple[TimingFile, int]:
    incarnation = 1
    while True:
        name = TimingFile(rank, incarnation)
        path = folder / name.name
        if not _is_taken(path) and not _is_taken(sidecar_path(path)):
            try:
                return name, os.open(path, _CREATE, 0o644)
            except FileExistsError:
                pass  # another process with this rank was faster
        incarnation += 1


def _is_taken(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(mode):
        raise LogPathError(_taken("log_dir", path, "regular file"))
    return True


def _taken(argument: str, path: Path, wanted: str) -> str:
    kinds = {stat.S_ISLNK: "a symbolic link", stat.S_ISFIFO: "a FIFO", stat.S_ISDIR: "a directory",
             stat.S_ISREG: "a file", stat.S_ISSOCK: "a socket"}  # fmt: skip
    mode = path.lstat().st_mode
    found = next((name for is_kind, name in kinds.items() if is_kind(mode)), "a device")
    return f"{argument}: {str(path)!r} is {found}, not a {wanted}. Remove it or name another folder."
