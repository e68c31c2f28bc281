"""The one door to files in folders that other users may write to: log folders, ring folders, caches.

What is opened, made, locked, listed, replaced or removed there, is here, and here is decided whose file
counts. Another user may have put a FIFO (whose opening blocks), a device (whose opening acts), a link, or a
file of their own under any name.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from threading import get_ident
from typing import BinaryIO, Literal

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


# -- whose file counts --------------------------------------------------------------------------------------


class UntrustedFileError(OSError):
    """A path names something that was not made by the user that it would have to be of; ``strerror``: how."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(1, why, str(path))


def owner_of(path: Path) -> int:
    """Return the uid that owns a regular file.

    Raises:
        UntrustedFileError: it is a link or another kind of file.
        OSError: the file system's error.
    """
    about = os.lstat(path)
    if not stat.S_ISREG(about.st_mode):
        raise UntrustedFileError(path, "it is no regular file")
    return about.st_uid


def owner_of_both(timing_file: Path, sidecar: Path) -> int:
    """Return the uid that owns a timing file and its sidecar, which another user may have put there.

    Raises:
        UntrustedFileError: they are not one user's.
    """
    owner = owner_of(timing_file)
    if owner_of(sidecar) != owner:
        raise UntrustedFileError(sidecar, "it belongs to another user than the timing file")
    return owner


def open_owned(path: Path, owner: int, flags: int = os.O_RDONLY, *, private: bool = False) -> int:
    """Open a regular file of the user ``owner``, without waiting; anything else is not even opened.

    Args:
        path: the file, whose last component may be no link.
        owner: its owner's uid.
        flags: as of ``os.open``.
        private: whether nobody but the owner may be able to write to it.

    Raises:
        UntrustedFileError: it is no regular file, is another user's, or others may write to it.
        OSError: the file system's error.
    """
    seen = os.lstat(path)
    if not stat.S_ISREG(seen.st_mode):
        raise UntrustedFileError(path, "it is no regular file")
    if seen.st_uid != owner:
        raise UntrustedFileError(path, "it belongs to another user")
    if private and seen.st_mode & _OTHERS_WRITE:
        raise UntrustedFileError(path, "other users may write to it")
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    if not os.path.samestat(seen, os.fstat(descriptor)):
        os.close(descriptor)
        raise UntrustedFileError(path, "it was replaced at this moment")
    return descriptor


def opened_owned(path: Path, owner: int, mode: Literal["rb", "r+b"] = "rb") -> BinaryIO:
    """Open a file as :func:`open_owned` does."""
    return open(path, mode, opener=lambda name, flags: open_owned(path, owner, flags))


# -- what is read -------------------------------------------------------------------------------------------


def open_to_read(path: str | Path, flags: int = os.O_RDONLY) -> int:
    """Open any file for reading; a FIFO is not waited for."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def opened(path: Path) -> BufferedReader:
    """Open any file for reading, as :func:`open_to_read` does."""
    return open(path, "rb", opener=open_to_read)


def content_of(path: Path) -> bytes:
    """Return what is in a file."""
    with opened(path) as file:
        return file.read()


def content_of_small(path: Path, most_bytes: int) -> bytes:
    """Return what is in a file that anybody may have written, which is not read on and on.

    Raises:
        UntrustedFileError: it is no regular file, which is not opened then, or larger than that.
        OSError: the file system's error.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise UntrustedFileError(path, "it is no regular file")
    with opened(path) as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_size > most_bytes:
            raise UntrustedFileError(path, f"it is no regular file of at most {most_bytes} bytes")
        return file.read(most_bytes)


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder."""
    return os.listdir(folder)


def entries_in(folder: Path) -> list[os.DirEntry[str]]:
    """Return the names in a folder with what the system tells at once of each."""
    with os.scandir(folder) as entries:
        return list(entries)


def matching(folder: Path, pattern: str) -> list[Path]:
    """Return the paths below a folder that match a pattern; none where it cannot be listed."""
    return list(folder.glob(pattern))


def matching_anywhere(pattern: str) -> list[Path]:
    """Return the paths that match a pattern as of a shell, which may have ``**``."""
    from glob import glob

    return [Path(path) for path in glob(pattern, recursive=True)]


# -- what is made -------------------------------------------------------------------------------------------


def create(path: str | Path, mode: int = 0o666, flags: int = os.O_WRONLY) -> int:
    """Create a file and open it, by no link and in the place of nothing: else ``FileExistsError``."""
    return os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def create_for(path: Path, owner: int, mode: int) -> None:
    """Create an empty file of the user ``owner``, with this mode whatever the umask."""
    descriptor = create(path, 0o600)
    try:
        if os.geteuid() != owner:
            os.fchown(descriptor, owner, -1)
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def created(path: Path) -> BinaryIO:
    """Create a draft, in the place of what a killed process left, or of a link that was set as a trap."""
    remove(path)
    return open(path, "xb", opener=lambda name, flags: create(name, flags=flags))


def write(path: Path, content: bytes) -> None:
    """Write a draft, as :func:`created` does."""
    with created(path) as file:
        file.write(content)


def opened_to_append(path: Path) -> BinaryIO:
    """Open a file to append to, or to lock; it is created if it is not there."""
    return open(path, "ab")


def make_folder(folder: Path, *, parents: bool = True, is_new: bool = False) -> None:
    """Make a folder, with those above it; that it is there is an error only if it ``is_new``."""
    folder.mkdir(parents=parents, exist_ok=not is_new)


def make_private_folder(folder: Path) -> Path:
    """Make a folder in this one that only this user may enter, and whose name nobody could know before."""
    from tempfile import mkdtemp

    return Path(mkdtemp(prefix="timing-logger-", dir=folder))


@contextmanager
def private_folder(folder: Path) -> Iterator[Path]:
    """Yield what :func:`make_private_folder` makes, and remove it."""
    made = make_private_folder(folder)
    try:
        yield made
    finally:
        remove_tree(made)


# -- what is changed, locked and removed --------------------------------------------------------------------


def draft_name(path: Path) -> Path:
    """Return where a file is written that is to replace ``path``; no other thread or process uses it."""
    return path.with_name(f"{path.name}.{os.getpid()}.{get_ident()}.tmp")


def replace(path: Path, content: bytes, *, like: os.stat_result | None = None) -> None:
    """Write a file that appears whole or not at all, whatever was there.

    Args:
        path: the file.
        content: what is to be in it.
        like: of a file, whose mode it gets, and whose owner if this process may give files away.
    """
    draft = draft_name(path)
    try:
        with created(draft) as file:
            if like is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(like.st_mode))
                with suppress(OSError):
                    os.fchown(file.fileno(), like.st_uid, like.st_gid)
            file.write(content)
        rename(draft, path)
    except BaseException:
        remove(draft)
        raise


def rename(draft: Path, path: Path) -> None:
    """Give a draft its name, in the place of what has that."""
    os.replace(draft, path)


def cut(descriptor: int, n_bytes: int) -> None:
    """Cut a file to this size."""
    os.ftruncate(descriptor, n_bytes)


def locked(descriptor: int) -> bool:
    """Tell whether the lock of a file was free; the caller holds it now."""
    import fcntl  # which only systems that record have

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(descriptor: int) -> None:
    """Unlock by hand: a child forked meanwhile has the descriptor, too, and would keep the lock."""
    import fcntl

    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def remove(path: str | Path) -> None:
    """Remove a file, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def remove_folder(folder: Path) -> None:
    """Remove a folder, unless somebody has put something there, which is an ``OSError``."""
    os.rmdir(folder)


def remove_tree(folder: Path) -> None:
    """Remove a folder with what is in it, as far as that can be."""
    from shutil import rmtree

    rmtree(folder, ignore_errors=True)


# -- the cache of this user ---------------------------------------------------------------------------------


def library_path(name: str, depends_on: Iterable[str]) -> Path:
    """Return the path of a library in ``$XDG_CACHE_HOME/timing_logger``, or ``~/.cache/timing_logger``.

    It lies there once for all that it depends on.

    Args:
        name: the beginning of its file's name.
        depends_on: all texts of which the library is made, and that say how: another text is another library.
    """
    from hashlib import sha256

    folder = os.environ.get("XDG_CACHE_HOME")
    caches = Path(folder) if folder else Path.home() / ".cache"
    digest = sha256("\0".join(depends_on).encode()).hexdigest()[:16]
    return caches / "timing_logger" / f"{name}-{digest}.so"
