"""Query and control the machine: usable cores, free memory, and what becomes of freed memory."""

from __future__ import annotations

import ctypes
import math
import os
import sys
from pathlib import Path
from typing import Any

# <malloc.h> of glibc
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8

_MORE_THAN_ANY_ARRAY = 2**30
_AT_ONCE = 2**26


def give_back_freed_memory() -> None:
    """Return freed memory to the system, where the C library is glibc; a call takes a millisecond.

    glibc keeps freed pieces of a few megabytes for later. A table joined of many files' columns would then be
    held twice: its own columns are too large for the pieces that those leave behind.
    """
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)


def keep_freed_memory() -> None:
    """Keep freed memory until the process ends, where the C library is glibc.

    Call it before worker threads are started. It is for a process that reads one file after the other: the
    memory that the arrays of one file leave is as large as those of the next need. Else the system would take
    the pages back and hand them out zeroed, which took a tenth of the time of a summary. Threads share one
    pool of memory, which is smaller than one pool for each.
    """
    set_option = _of_glibc("mallopt")
    if set_option is not None:
        set_option(_M_ARENA_MAX, 1)
        set_option(_M_MMAP_THRESHOLD, _MORE_THAN_ANY_ARRAY)
        set_option(_M_TRIM_THRESHOLD, _MORE_THAN_ANY_ARRAY)
        set_option(_M_TOP_PAD, _AT_ONCE)


def _of_glibc(name: str) -> Any:
    """Return a function of glibc; None if the C library lacks it, as musl does."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None


def usable_cores() -> int:
    """Return the number of cores that this process may use, or of all cores where the system does not tell.

    macOS does not tell.
    """
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


MEMORY_INFO = Path("/proc/meminfo")


def free_memory_bytes() -> float:
    """Return the memory in bytes that Linux could give without swapping.

    Other systems do not tell: then it is infinite, so that nothing is refused.
    """
    try:
        lines = MEMORY_INFO.read_text().splitlines()
    except OSError:
        return math.inf
    stated = (1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    return next(stated, math.inf)  # Linux states it since 3.14, a container's own file may not
