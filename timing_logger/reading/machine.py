"""The machine: cores that may be used, memory that is free, and memory that was freed."""

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
    """Where the C library keeps pieces of a few megabytes for later, as glibc does; a millisecond each.

    A table joined of many files' columns would else be held twice: its own columns are too large for
    what those leave behind.
    """
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)


def keep_freed_memory() -> None:
    """From here on until the process ends, where the C library is glibc; before it starts threads that work.

    For a process that looks at one file after the other: what the arrays of one leave behind is as large as
    those of the next need. The system would take the pages and give them out empty again, which took a
    tenth of the time of a summary; and pieces that threads share are fewer than each thread's own.
    """
    set_option = _of_glibc("mallopt")
    if set_option is not None:
        set_option(_M_ARENA_MAX, 1)
        set_option(_M_MMAP_THRESHOLD, _MORE_THAN_ANY_ARRAY)
        set_option(_M_TRIM_THRESHOLD, _MORE_THAN_ANY_ARRAY)
        set_option(_M_TOP_PAD, _AT_ONCE)


def _of_glibc(name: str) -> Any:
    """Its function; None elsewhere, as in musl."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None


def usable_cores() -> int:
    """Those that this process may use, where the system tells (macOS does not)."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


MEMORY_INFO = Path("/proc/meminfo")


def free_memory_bytes() -> float:
    """What Linux could give without swapping; other systems do not tell, and then nothing is refused."""
    try:
        lines = MEMORY_INFO.read_text().splitlines()
    except OSError:
        return math.inf
    return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
