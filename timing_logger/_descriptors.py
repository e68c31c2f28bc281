"""File descriptors that nobody else is given: somebody may close all of them, and open files of their own."""

from __future__ import annotations

import os

_HIGH = 512


def moved_up(descriptor: int) -> int:
    """The same file under a number that no other is given before all lower ones are.

    Between a look at a descriptor and the write to it, somebody may close them all and open others.
    """
    try:
        import fcntl

        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    except (ImportError, OSError):  # no such numbers here
        return descriptor
    os.close(descriptor)
    return moved
