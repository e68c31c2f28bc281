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
        max_bytes: the size at which a file is followed by its next part; None for no limit.
    """

    def __init__(
        self,
        timing_file: CsvSink,
        kind: FilesBeside,
        header: str,
        *,
        started_unix_ns: int,
        mode: int,
        max_bytes: float | None = None,
    ) -> None:
        self._timing_file = timing_file
        self._kind, self._header = kind, header
        self._started_unix_ns = started_unix_ns
        self._mode, self._max_bytes = mode, max_bytes
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
        name = self._timing_file.name
        if self._file is None or self._file.incarnation != name.incarnation:
            file = _Parts(
                self._timing_file.path.parent, self._kind, name, self._started_unix_ns,
                head=self._header.encode(), mode=self._mode, max_bytes=self._max_bytes,
            )  # fmt: skip
            self.close()
            self._lost_before += 0 if self._file is None else self._file.lost
            self._file = file
        return self._file


class _Parts(FileInParts):
    """The file under one number. It takes no other by itself: the timing file does, and then this one."""

    def __init__(
        self,
        folder: Path,
        kind: FilesBeside,
        of: TimingFile,
        started_unix_ns: int,
        *,
        head: bytes,
        mode: int,
        max_bytes: float | None,
    ) -> None:
        def timing_file_of(path: Path) -> TimingFile:
            found = kind.parse(path.name)
            assert found is not None, path  # the name that is made of it below
            return found

        super().__init__(
            folder,
            lambda incarnation, part: kind.name(TimingFile(of.rank, incarnation, part)),
            argument="log_dir",
            taken=lambda path: timing_file_of(path).incarnation < of.incarnation or is_taken(path),
            claimed=lambda first: is_anothers(first.with_name(timing_file_of(first).name), started_unix_ns),
            head=head,
            mode=mode,
            max_bytes=max_bytes,
        )

    @property
    def has_found_something(self) -> bool:
        """Whether something was done to the file, as was found when the last line was written."""
        return bool(self._notices)

    def _take_other_names(self) -> None:
        raise FileExistsError("another process has taken the names of our files")
