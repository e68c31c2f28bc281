"""Which files this process has open."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def is_open(path: Path) -> bool:
    """Tell whether this process has a file open, under whatever name."""
    held = path.stat()
    for descriptor in os.listdir("/dev/fd"):
        with suppress(OSError):  # of the listing itself
            if os.path.samestat(os.fstat(int(descriptor)), held):
                return True
    return False
