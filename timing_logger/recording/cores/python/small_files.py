"""Reads small files, such as those in which the kernel states its counters, again and again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

MOST_BYTES = 2**18
"""The most bytes that are read of all files together."""

_SURELY_LAST = 2048  # the kernel gives a file line by line, a page at a time


class SmallFiles:
    """Reads small files again and again.

    The native core reads all of them without the interpreter's lock, and keeps those open that were read the
    last time. Here each call of the system gives the lock up for itself, and waits to have it again.
    """

    def read(self, paths: Sequence[str]) -> list[bytes]:
        """Return the content of each file; b"" of one that is not there or cannot be read."""
        contents: list[bytes] = []
        room = MOST_BYTES
        for path in paths:
            contents.append(read_file(path, room))
            room -= len(contents[-1])
        return contents

    def close(self) -> None:
        """Close all files."""


def read_file(path: str | os.PathLike[str], most_bytes: int = MOST_BYTES) -> bytes:
    """Return the content of a file, but for what lies behind ``most_bytes``; b"" if it cannot be read."""
    pieces: list[bytes] = []
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            pieces.append(os.read(descriptor, most_bytes))
            while len(pieces[-1]) >= _SURELY_LAST:
                pieces.append(os.read(descriptor, most_bytes - sum(map(len, pieces))))
        except OSError:
            return b""
        finally:
            os.close(descriptor)
    return b"".join(pieces)
