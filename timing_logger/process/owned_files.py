"""Opens files of folders that other users may write to: only what a given user owns, and never a trap.

Another user may have put a FIFO (whose opening blocks), a device (whose opening acts), a link, or a file of
their own under any name.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


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
