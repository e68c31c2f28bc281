"""A file beside the timing file: it has the same number, and is owned in the same way."""

from __future__ import annotations

from pathlib import Path

from timing_logger.process.sidecar_files import is_anothers
from timing_logger.schema.timing_files import FilesBeside, TimingFile
from timing_logger.sinks._file_in_parts import FileInParts, is_taken
from timing_logger.sinks.csv import CsvSink


class FileBeside:
    """Takes whole lines. It begins with the first of them, and follows the timing file to other names.

    Args:
        timing_file: the timing file, which belongs to this process.
        kind: of the file.
        header: its first line, with the newline.
        started_unix_ns: the start time that the sidecar of the timing file states.
        mode: permissions of the files, from which the process's umask is subtracted.
    """

    def __init__(
        self, timing_file: CsvSink, kind: FilesBeside, header: str, *, started_unix_ns: int, mode: int
    ) -> None:
        self._timing_file = timing_file
        self._kind, self._header = kind, header
        self._started_unix_ns = started_unix_ns
        self._mode = mode
        self._file: _Parts | None = None
        self._written = self._lost_before = 0

    @property
    def name(self) -> str:
        """The name of the file's first part; "" before the first line."""
        return "" if self._file is None else self._file.path.name

    @property
    def lines(self) -> int:
        """How many lines are in files of this process."""
        return self._written - self._lost_before - (0 if self._file is None else self._file.lost)

    def append(self, lines: bytes, n: int = 1) -> list[str]:
        """Write some lines, and return what was found to have been done to the file from outside.

        Args:
            lines: whole lines.
            n: how many.

        Raises:
            OSError, LogPathError: the lines are in no file, and may be written later.
        """
        file = self._current()
        file.append(lines, n)
        self._written += n
        return file.look_after() if file.has_found_something else []

    def close(self) -> None:
        """Close the file. Calling it again is harmless."""
        if self._file is not None:
            self._file.close()

    def _current(self) -> _Parts:
        of = self._timing_file.name
        if self._file is None or self._file.incarnation != of.incarnation:
            file = _Parts(
                self._timing_file.path.parent,
                lambda incarnation, part: self._kind.name(TimingFile(of.rank, incarnation, part)),
                argument="log_dir",
                taken=lambda path: self._beside(path).incarnation < of.incarnation or is_taken(path),
                claimed=lambda first: is_anothers(
                    first.with_name(self._beside(first).name), self._started_unix_ns
                ),
                head=self._header.encode(),
                mode=self._mode,
            )
            self.close()
            self._lost_before += 0 if self._file is None else self._file.lost
            self._file = file
        return self._file

    def _beside(self, path: Path) -> TimingFile:
        """Return the timing file that a file of ours stands beside."""
        found = self._kind.parse(path.name)
        assert found is not None, path  # the name that is made of it above
        return found


class _Parts(FileInParts):
    """The file under one number. It takes no other by itself: the timing file does, and then this one."""

    @property
    def has_found_something(self) -> bool:
        """Whether something was done to the file, as was found when the last line was written."""
        return bool(self._notices)

    def _take_other_names(self) -> None:
        raise FileExistsError("another process has taken the names of our files")
