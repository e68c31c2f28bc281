"""Follow files that other processes write: what was added to each, new ones, and those that are replaced.

A file is known by its inode, so one that is renamed, as logs are when they are rotated, is the same file. It
stays open, so that what is added to it while nobody looks is read even where its name is gone. One that is
compressed, as rotated logs are, goes on in what it is compressed to.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from timing_logger.errors import TooLargeError
from timing_logger.importing.growing_file import GrowingFile
from timing_logger.importing.source_files import AnyPath, files_now, without_compression

_LOOKS_WITHOUT_NAME = 60


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
        for key in named.keys() & self._files.keys():
            self._files[key].path = named[key]
            self._files[key].n_looks_without_name = 0
        of_name = {file.path: file for file in self._files.values()}
        for key, path in named.items():
            if key in self._files or key in self._left_out or (file := self._opened(key, path)) is None:
                continue
            if self._is_new(file, of_name, without):
                self._files[key] = of_name[path] = file
            else:
                file.close()
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

    def _is_new(
        self, file: GrowingFile, of_name: Mapping[Path, GrowingFile], without: Mapping[Path, GrowingFile]
    ) -> bool:
        """Find what a file is written in place of; tell whether it is to be read now.

        A compressed copy is not while the original has a name: that is read, and the next look asks again.
        """
        before = without.get(file.path)
        its_name = without_compression(file.path)
        if before is None and its_name is not None and not file.tells_its_kind():
            return False
        if before is None and file.is_compressed():
            original = of_name.get(its_name) if its_name is not None else None
            # What has no name may have got another one since the last look, and lost it.
            candidates = [*filter(None, [original]), *without.values()]
            head = file.head() if candidates else b""
            before = next((other for other in candidates if _begin_alike(other.head(), head)), None)
            if candidates and (not head or (before is not None and before not in without.values())):
                return False
        file.replaces = before and before.last_read
        return True

    def _opened(self, key: tuple[int, int], path: Path) -> GrowingFile | None:
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
            return None
        about = os.fstat(descriptor)
        if (about.st_dev, about.st_ino) == key:
            return GrowingFile(path, descriptor)
        os.close(descriptor)  # it was replaced this moment: the next look finds it
        return None

    @staticmethod
    def _is_over(file: GrowingFile) -> bool:
        """Tell whether a file without a name is no longer written to."""
        file.n_looks_without_name = 1 if file.has_changed() else file.n_looks_without_name + 1
        return file.n_looks_without_name > _LOOKS_WITHOUT_NAME


def _begin_alike(one: bytes, other: bytes) -> bool:
    n_bytes = min(len(one), len(other))
    return n_bytes > 0 and one[:n_bytes] == other[:n_bytes]


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
