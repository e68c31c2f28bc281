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
from typing import Literal, NamedTuple

from timing_logger.errors import TooLargeError
from timing_logger.importing.source_files import AnyPath, files_now, is_compressed

_BLOCK_BYTES = 2**18
_MAGIC_BYTES = 4  # tell what is compressed
_HEAD_BYTES, _BEFORE_BYTES = 1024, 256  # tell one content from another: more than a header, and some lines
_LOOKS_WITHOUT_NAME = 60


class _Content(NamedTuple):
    """What a file held up to a position: how it began, and what came last before the position."""

    head: bytes = b""
    offset: int = 0
    before: bytes = b""

    def followed_by(self, block: bytes) -> _Content:
        return _Content(
            self.head if len(self.head) >= _HEAD_BYTES else (self.head + block)[:_HEAD_BYTES],
            self.offset + len(block),
            (self.before + block)[-_BEFORE_BYTES:],
        )


Standing = Literal["goes on", "repeats", "unclear", "is another"]
"""How what a file holds stands to what was read under its name: more was added; it holds the same and maybe
more, written anew, as a table is that is saved again and again; so far it may; or it does not."""


class GrowingFile:
    """A file from the position up to which it was read.

    Args:
        path: its latest name.
        descriptor: it, opened.
        replaces: the file that had the name before.

    Attributes:
        n_looks_without_name: for how many looks it had no name, and did not grow.
    """

    def __init__(self, path: Path, descriptor: int, replaces: GrowingFile | None = None) -> None:
        self.path, self.replaces = path, replaces
        self.n_looks_without_name = 0
        self._descriptor = descriptor
        self._read = _Content()
        self._earlier: _Content | None = None
        self._state = (0, 0)

    def blocks(self) -> Iterator[bytes]:
        """Yield what was added since the last call, in blocks."""
        about = os.fstat(self._descriptor)
        self._state = about.st_size, about.st_mtime_ns
        while block := self._next_block():
            self._read = self._read.followed_by(block)
            yield block

    def _next_block(self) -> bytes:
        block = os.pread(self._descriptor, _BLOCK_BYTES, self._read.offset)
        return b"" if not self._read.offset and len(block) < _MAGIC_BYTES else block

    def has_changed(self) -> bool:
        """Tell whether it was written to since it was read."""
        about = os.fstat(self._descriptor)
        return (about.st_size, about.st_mtime_ns) != self._state

    def standing(self) -> Standing:
        """Tell how what it holds stands to what was read under its name; it is read on accordingly."""
        earlier = self.replaces._read if self.replaces is not None else self._earlier
        if earlier is None and self._holds_before(self._read):
            return "goes on"
        earlier = earlier or self._read
        if not earlier.head.startswith(os.pread(self._descriptor, len(earlier.head), 0)):
            return self._is_another()
        if os.fstat(self._descriptor).st_size < earlier.offset:
            self._earlier = earlier
            return "unclear"
        if not self._holds_before(earlier):
            return self._is_another()
        self._read, self._earlier, self.replaces = earlier, None, None
        return "repeats"

    def _is_another(self) -> Standing:
        self.replaces = None
        self.begin_anew()
        return "is another"

    @property
    def last_read(self) -> GrowingFile:
        """The file of this name of which something was read: this one, or the one that it replaces."""
        return self.replaces if self.replaces is not None and not self._read.offset else self

    def _holds_before(self, content: _Content) -> bool:
        n_bytes = len(content.before)
        return os.pread(self._descriptor, n_bytes, content.offset - n_bytes) == content.before

    def begin_anew(self) -> None:
        """Have it read from its beginning."""
        self._read, self._earlier, self._state = _Content(), None, (0, 0)

    def is_compressed(self) -> bool:
        """Tell whether its first bytes say so."""
        return is_compressed(os.pread(self._descriptor, _MAGIC_BYTES, 0))

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
        self._endings, self._output, self._tell = endings, Path(os.path.realpath(output)), tell
        self._files: dict[tuple[int, int], GrowingFile] = {}
        self._left_out: set[tuple[int, int]] = set()

    def __len__(self) -> int:
        return len(self._files)

    def look(self) -> list[GrowingFile]:
        """Find new files, and return all: first those that lost their name, then in the order of names."""
        named = self._named()
        self._left_out &= named.keys()
        without = {file.path: file for key, file in self._files.items() if key not in named}
        for key, path in named.items():
            if key in self._files:
                self._files[key].path = path
                self._files[key].n_looks_without_name = 0
            elif key not in self._left_out:
                self._open(key, path, without.get(path))
        awaited = {file.replaces for file in self._files.values()}
        for file in without.values():
            if file not in awaited and self._is_over(file):
                self.leave_out(file, "")
        return sorted(self._files.values(), key=lambda file: (file not in without.values(), file.path))

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
                if stat.S_ISREG(about.st_mode) and Path(os.path.realpath(path.parent)) != self._output:
                    found.setdefault((about.st_dev, about.st_ino), path)
        return found

    def _open(self, key: tuple[int, int], path: Path, replaces: GrowingFile | None) -> None:
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
            self._files[key] = GrowingFile(path, descriptor, replaces and replaces.last_read)
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
    with suppress(ValueError, OSError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
