"""Memory that was freed, given back to the system."""

from __future__ import annotations

import ctypes
import sys


def give_back_freed_memory() -> None:
    """Where the C library keeps pieces of a few megabytes for later, as glibc does; a millisecond each.

    A table joined of many files' columns would else be held twice: its own columns are too large for
    what those leave behind.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)
