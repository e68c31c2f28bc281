"""What the command says beside its answer: lines on stderr, if there is somebody to read them."""

from __future__ import annotations

import os
import sys


def say(*lines: str) -> None:
    """Write lines of this command's own; where stderr is closed or its disk full, nobody is told."""
    if sys.stderr is None:  # it was closed when this process began
        return
    try:
        sys.stderr.write("".join(f"timing-logger: {line}\n" for line in lines))
        sys.stderr.flush()
    except (OSError, ValueError):
        _give_up_stderr()


def _give_up_stderr() -> None:
    """Send what waits to be written nowhere: at exit it would fail again, and change the exit code."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    except (OSError, ValueError):
        sys.stderr = None
