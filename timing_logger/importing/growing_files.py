"""Follow files that other processes write: what was added to each, new ones, and those that are replaced.

A file is known by its inode, so one that is renamed, as logs are when they are rotated, is the same file. It
stays open, so that what is added to it while nobody looks is read even where its name is gone.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from timing_logger.errors import TooLargeError
from timing_logger.importing.source_files import AnyPath, files_now, is_compressed

_BLOCK_BYTES = 2**18
_HEAD_BYTES = 4  # tell what is compressed
_COMPARED_BYTES = 256
_LOOKS_WITHOUT_NAME = 60


class GrowingFile:
    """A file from the position up to which it was read.

    Attributes:
        path: its latest name.
        n_looks_without_name: for how many looks it had none and did not grow.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.n_looks_without_name = 0
        self._descriptor, self._offset, self._before = descriptor, 0, b""
        self._state = (0, 0)

    def blocks(self) -> Iterator[bytes]:
        """Yield what was added since the last call, in blocks."""
        about = os.fstat(self._descriptor)
        self._state = about.st_size, about.st_mtime_ns
        while block := self._next_block():
            self._offset += len(block)
            self._before = (self._before + block)[-_COMPARED_BYTES:]
            yield block

    def _next_block(self) -> bytes:
        block = os.pread(self._descriptor, _BLOCK_BYTES, self._offset)
        return b"" if not self._offset and len(block) < _HEAD_BYTES else block

    def has_changed(self) -> bool:
        """Tell whether it was written to since it was read."""
        about = os.fstat(self._descriptor)
        return (about.st_size, about.st_mtime_ns) != self._state

    def was_cut(self) -> bool:
        """Tell whether it no longer holds what was read of it: it was emptied, and may be written anew."""
        before = os.pread(self._descriptor, len(self._before), self._offset - len(self._before))
        return before != self._before

    def begin_anew(self) -> None:
        """Have it read from its beginning."""
        self._offset, self._before, self._state = 0, b"", (0, 0)

    def is_compressed(self) -> bool:
        """Tell whether its first bytes say so."""
        return is_compressed(os.pread(self._descriptor, _HEAD_BYTES, 0))

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)


class GrowingFiles:
    """The files that paths lead to, now and later.

    Args:
        paths: files, folders or patterns, of which nothing has to be there yet.
        endings: how the names end of those that count in a folder.
        output: the folder that is made of them; what is in it is none of them.
        tell: is told what becomes of files, a sentence each.
    """

    def __init__(
        self,
        paths: AnyPath | Sequence[AnyPath],
        endings: Sequence[str],
        output: Path,
        tell: Callable[[str], None],
    ) -> None:
        self._paths: list[AnyPath] = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        self._endings, self._output, self._tell = endings, output.absolute(), tell
        self._files: dict[tuple[int, int], GrowingFile] = {}
        self._left_out: set[tuple[int, int]] = set()

    def __len__(self) -> int:
        return len(self._files)

    def look(self) -> list[GrowingFile]:
        """Find new files, and return all: first those that lost their name, then in the order of names."""
        named = self._named()
        self._left_out &= named.keys()
        for key, path in named.items():
            if key in self._files:
                self._files[key].path = path
            elif key not in self._left_out:
                self._open(key, path)
        for key, file in list(self._files.items()):
            if key in named:
                file.n_looks_without_name = 0
            elif self._is_over(file):
                self.leave_out(file, "")
        return sorted(self._files.values(), key=lambda file: (file.n_looks_without_name == 0, file.path))

    def leave_out(self, file: GrowingFile, why: str) -> None:
        """Follow a file no longer, and tell why, unless that is ""."""
        key = next(key for key, one in self._files.items() if one is file)
        del self._files[key]
        file.close()
        if why:
            self._left_out.add(key)
            self._tell(f"{file.path}: {why}")

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _named(self) -> dict[tuple[int, int], Path]:
        found: dict[tuple[int, int], Path] = {}
        for path in files_now(self._paths, self._endings):
            with suppress(OSError):
                about = path.stat()
                if stat.S_ISREG(about.st_mode) and path.absolute().parent != self._output:
                    found.setdefault((about.st_dev, about.st_ino), path)
        return found

    def _open(self, key: tuple[int, int], path: Path) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise TooLargeError(
                    f"paths: there are more files than may be open at a time: {len(self._files)} are. Follow "
                    "fewer, or allow more: ulimit -n."
                ) from None
            if not isinstance(error, FileNotFoundError):
                self._left_out.add(key)
                self._tell(f"{path}: cannot be read: {error.strerror}.")
            return
        about = os.fstat(descriptor)
        if (about.st_dev, about.st_ino) == key:
            self._files[key] = GrowingFile(path, descriptor)
        else:  # it was replaced this moment: the next look finds it
            os.close(descriptor)

    @staticmethod
    def _is_over(file: GrowingFile) -> bool:
        """Tell whether a file without a name is no longer written to."""
        file.n_looks_without_name = 1 if file.has_changed() else file.n_looks_without_name + 1
        return file.n_looks_without_name > _LOOKS_WITHOUT_NAME


@contextmanager
def many_files() -> Iterator[None]:
    """Let this process have as many files open as it may, during the block: each source is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
