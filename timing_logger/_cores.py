"""How many cores there are to work with."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Those that this process may use, where the system tells (macOS does not)."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1
