"""The process of a monitor: told its settings in a line of its standard input, it looks until that ends.

It says what happens in lines of JSON on its standard output. Nobody waits for it: whoever started it may be
gone, which it sees by the end of its input, or by another parent.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from timing_logger.process.monitor import MonitorSettings

_NICE = 10  # a rank that wants the processor gets nine tenths of it
_TICK_S = 0.2

COLLECT_AFTER = 100_000
"""The garbage collector of this process comes after so many new objects. What is known of 10,000 ranks is no
garbage, and collections as frequent as usual go through it 600 times in a look, for an eighth of its time."""


_SAYING = threading.Lock()


def say(**content: Any) -> None:
    """Say an object to whoever started the process, as a line of JSON; nothing once nobody listens."""
    with _SAYING, suppress(OSError, ValueError):
        sys.stdout.write(json.dumps(content) + "\n")
        sys.stdout.flush()


def main() -> int:
    """Look at a run until its end; return the exit status."""
    _stay_out_of_the_way()
    gc.set_threshold(COLLECT_AFTER)
    settings = MonitorSettings(**json.loads(sys.stdin.readline()))
    parent = os.getppid()
    from timing_logger.live.looking import Looking  # imports pandas, at this process's own priority

    looking = Looking(settings, say)
    next_s = time.monotonic()
    while not _is_over(parent, min(_TICK_S, max(0.0, next_s - time.monotonic()))):
        if time.monotonic() >= next_s or looking.stands_still():
            looking.look()
            next_s = max(next_s + settings.every_s, time.monotonic() + settings.every_s / 2)
        looking.hear_other()
    looking.look()
    looking.hear_other()
    looking.close()
    return 0


def _stay_out_of_the_way() -> None:
    """Take no processor from a rank: not the one that it is bound to, nor its share of another."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):
        os.nice(_NICE)
    with suppress(OSError, AttributeError, ValueError):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))


def _is_over(parent: int, within_s: float) -> bool:
    """Wait, and return whether whoever started this process is gone, or has closed its input."""
    readable, _, _ = select.select([sys.stdin], [], [], within_s)
    return bool(readable) or os.getppid() != parent
