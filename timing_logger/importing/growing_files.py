"""Follow files that other processes append to: what was added to each, and new ones.

A file is followed under its name for as long as it holds what was read of it. It is open only while it is
read, so what becomes of one that is renamed, removed, replaced or cut is not known: that is said.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from timing_logger.errors import NotImportableError, TooLargeError
from timing_logger.importing.imported import LeftOut
from timing_logger.importing.log_folder import Process, TimingFileOfRank
from timing_logger.importing.source_files import MAGIC_BYTES, AnyPath, found_at, is_compressed
from timing_logger.process.shared_files import opened
from timing_logger.schema.record import RawRecord
from timing_logger.schema.sidecar import ImportedFrom

_REFRESHED_S = 5.0
"""Readers take a process for gone whose sidecar is 30 s old."""


class GrowingFolder:
    """A folder that is being written, one timing file for each rank.

    Args:
        path: the folder, which is there and empty.
        kind: what is imported.

    Attributes:
        n_rows: the number of rows in all files.
        left_out: how many records could not be used, by reason.
        not_told: what the source does not tell, in the order of ``sidecar.NOT_TOLD``.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self._kind, self._run_id = path, kind, f"import {kind} {path.name}"
        self._files: dict[int, TimingFileOfRank] = {}
        self._refreshed_s = -_REFRESHED_S
        self.n_rows = 0
        self.left_out = LeftOut()
        self.not_told: list[str] = []

    @property
    def ranks(self) -> list[int]:
        """The ranks that have a timing file, ascending."""
        return sorted(self._files)

    @property
    def notes(self) -> list[str]:
        """What became of rows that were written, if somebody changed the files: a sentence, or none."""
        lost = sum(file.n_lost for file in self._files.values())
        return [f"{lost:,} rows that had been written are in no file any more."] if lost else []

    def append(self, process: Process, rows: Sequence[RawRecord], source: Path) -> None:
        """Append rows to the timing file of a rank.

        Args:
            process: the process of the rank.
            rows: its next rows, with start and end in ns.
            source: what they were made from.
        """
        if not rows:
            return
        if process.rank not in self._files:
            self._files[process.rank] = TimingFileOfRank(self.path, process)
            self._refreshed_s = -_REFRESHED_S  # its sidecar is to be there soon
        self._files[process.rank].append(rows, source)
        self.n_rows += len(rows)

    def clear(self) -> None:
        """Remove all that was written."""
        for file in self._files.values():
            file.remove()
        self._files.clear()
        self.n_rows = 0

    def refresh(self) -> None:
        """Write the sidecars, if that is long ago: they say that the files are being written."""
        if time.monotonic() - self._refreshed_s >= _REFRESHED_S:
            self._describe(is_closed=False)
            self._refreshed_s = time.monotonic()

    def close(self) -> None:
        """Write the last sidecars, which say that no more comes, and close the files."""
        self._describe(is_closed=True)
        for file in self._files.values():
            file.close()

    def _describe(self, *, is_closed: bool) -> None:
        # All are as new: that a rank has no new rows does not tell that its process is gone. The newest
        # row is by clocks that may be ahead of that of this host.
        is_known = "instants" not in self.not_told
        newest_ns = max((file.newest_unix_ns for file in self._files.values() if is_known), default=0)
        seen_ns = None if is_closed else max(time.time_ns(), newest_ns)
        for rank in self.ranks:
            file = self._files[rank]
            of_all = dict(self.left_out) if rank == self.ranks[0] else {}
            names = sorted({source.name for source in file.sources})
            imported = ImportedFrom(self._kind, names, of_all, self.not_told, goes_on=not is_closed)
            file.describe(imported, self._run_id, seen_ns)


_BLOCK_BYTES = 2**18
_LAST_BYTES = 256  # tell one content from another: some lines


class EndedError(Exception):
    """A file cannot be followed any longer, for the reason that is its argument."""


class GrowingFile:
    """A file from the position up to which it was read.

    Attributes:
        path: its name.
        inode: what tells it from others of this name; None if it has gone, and nothing was read of it.
        is_over: whether it is followed no longer.
    """

    def __init__(self, path: Path, about: os.stat_result) -> None:
        self.path, self.is_over = path, False
        self.inode: tuple[int, int] | None = (about.st_dev, about.st_ino)
        self._known = 0, b""  # how many bytes were read of it, and the last of them
        self.begin_anew()

    def begin_anew(self) -> None:
        """Have it read from its beginning; it still is to hold what it held."""
        self._offset, self._last, self._state = 0, b"", (0, 0)

    def blocks(self) -> Iterator[bytes]:
        """Yield what was added since the last call, in blocks.

        Raises:
            EndedError: it does not hold any more what was read of it, or cannot be read any more.
            NotImportableError: it is compressed, or cannot be read.
            TooLargeError: no further file may be open.
        """
        try:
            with opened(self.path) as file:
                yield from self._added(file.fileno())
        except FileNotFoundError:
            if self._known[0]:
                raise EndedError("was renamed or removed") from None
            self.inode = None
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise TooLargeError(
                    "paths: there are more ranks than files may be open at a time. Allow more: ulimit -n."
                ) from None
            if self._known[0]:
                raise EndedError(f"cannot be read any more: {error.strerror}") from None
            raise NotImportableError(f"paths: {str(self.path)!r} cannot be read: {error.strerror}.") from None

    def _added(self, descriptor: int) -> Iterator[bytes]:
        about = os.fstat(descriptor)
        inode = about.st_dev, about.st_ino
        if self._known[0] and inode != self.inode:
            raise EndedError("was replaced by another file")
        self.inode = inode
        state = about.st_size, about.st_mtime_ns
        if state == self._state or (not self._known[0] and about.st_size < MAGIC_BYTES):
            return
        if not self._is_in(descriptor):
            raise EndedError("was cut or written anew")
        self._state = state
        while block := os.pread(descriptor, _BLOCK_BYTES, self._offset):
            if not self._offset and is_compressed(block):
                raise NotImportableError(
                    f"paths: {str(self.path)!r} is compressed, and only files that are appended to are "
                    "followed. Import it without following."
                )
            self._offset += len(block)
            self._last = (self._last + block)[-_LAST_BYTES:]
            self._known = max(self._known, (self._offset, self._last))
            yield block

    def is_at(self, path: Path) -> bool:
        """Tell whether what was read of it is in the file of this name."""
        with opened(path) as file:
            return self._is_in(file.fileno())

    def _is_in(self, descriptor: int) -> bool:
        n_bytes, last = self._known
        return os.pread(descriptor, len(last), n_bytes - len(last)) == last


class GrowingFiles:
    """The files that paths lead to, now and later.

    Args:
        paths: files, folders or patterns, of which nothing has to be there yet.
        endings: how the names end of those that count in a folder.
        output: the folder that is made of them; what is in it is none of them.
    """

    def __init__(self, paths: AnyPath | Sequence[AnyPath], endings: Sequence[str], output: Path) -> None:
        self._paths: list[AnyPath] = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        self._endings, self._output = endings, Path(os.path.realpath(output))
        self._files: dict[Path, GrowingFile] = {}

    def __len__(self) -> int:
        return len(self._files)

    def look(self) -> list[GrowingFile]:
        """Find new files, and return all that are followed, in the order of their names."""
        of_inode = {file.inode: file for file in self._files.values()}
        for path in sorted({file for given in self._paths for file in found_at(given, self._endings)}):
            if path in self._files or Path(os.path.realpath(path.parent)) == self._output:
                continue
            with suppress(OSError):  # it has gone again
                about = path.stat()
                before = of_inode.get((about.st_dev, about.st_ino))
                # What was followed under another name is the same file; but inodes are used again.
                if stat.S_ISREG(about.st_mode) and not (before and before.is_at(path)):
                    self._files[path] = of_inode[about.st_dev, about.st_ino] = GrowingFile(path, about)
        return [file for _, file in sorted(self._files.items()) if not file.is_over]


@contextmanager
def many_files() -> Iterator[None]:
    """Let this process have as many files open as it may, during the block: each rank's is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
