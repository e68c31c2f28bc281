"""Where libraries lie that are built on the user's machine, once for all that they depend on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path


def library_path(name: str, depends_on: Iterable[str]) -> Path:
    """Return the path of a library in ``$XDG_CACHE_HOME/timing_logger``, or ``~/.cache/timing_logger``.

    Args:
        name: the beginning of its file's name.
        depends_on: all texts of which the library is made, and that say how: another text is another library.
    """
    folder = os.environ.get("XDG_CACHE_HOME")
    caches = Path(folder) if folder else Path.home() / ".cache"
    digest = hashlib.sha256("\0".join(depends_on).encode()).hexdigest()[:16]
    return caches / "timing_logger" / f"{name}-{digest}.so"
