"""Keep file descriptors out of the low numbers that other code may close and reuse."""

from __future__ import annotations

import os

_HIGH = 512


def moved_up(descriptor: int) -> int:
    """Move an open file to a high descriptor number and return that number.

    The kernel gives out the lowest free number first. Other code may close all descriptors and open files of
    its own; a file at a low number could then be another one when it is written to.

    Returns:
        A descriptor of at least 512 for the same file; the old one is closed. Where the system has no such
        numbers, the old one, still open.
    """
    try:
        import fcntl

        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    except (ImportError, OSError):  # not a POSIX system, or the limit on descriptors is lower
        return descriptor
    os.close(descriptor)
    return moved
