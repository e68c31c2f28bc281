"""Reads small files, such as those in which the kernel states its counters."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

MOST_BYTES = 2**18
"""The most bytes that are read of all files together."""

_SURELY_LAST = 2048  # the kernel gives a file line by line, a page at a time


def read_files(paths: Sequence[str]) -> list[bytes]:
    """Return the content of each file; b"" of one that is not there or cannot be read.

    The native core reads all of them without the interpreter's lock. Here each call of the system gives it up
    for itself, and waits to have it again.
    """
    contents: list[bytes] = []
    room = MOST_BYTES
    for path in paths:
        content = b""
        with suppress(OSError):
            content = _read_file(path, room)
        contents.append(content)
        room -= len(content)
    return contents


def _read_file(path: str, most_bytes: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = [os.read(descriptor, most_bytes)]
        while len(pieces[-1]) >= _SURELY_LAST:
            pieces.append(os.read(descriptor, most_bytes - sum(map(len, pieces))))
        return b"".join(pieces)
    finally:
        os.close(descriptor)
