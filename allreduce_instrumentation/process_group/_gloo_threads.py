"""gloo's own threads are at rest before the interpreter goes down.

The thread that ran an operation has a little left to do when everybody who waited for it goes on: it
lets go of the tensors, for each of which torch takes the interpreter's lock. A thread that asks for the
lock while the interpreter goes down ends there and then, and the process is aborted. So it is with torch
alone, too; but timing, whose callbacks come in between, must not make it more frequent.
"""

from __future__ import annotations

import time
from pathlib import Path

_TASKS = Path("/proc/self/task")  # of Linux; elsewhere nothing is known of a thread of another's
_NAME = "pt_gloo"  # how torch begins the names of the threads that run operations
_LIMIT_S = 2.0  # of an exit; a thread that takes longer is working at something


def let_rest() -> None:
    """Wait, for 2 seconds at most, until none of the threads has anything left to do."""
    deadline = time.monotonic() + _LIMIT_S
    before = None
    while (now := _threads()) and time.monotonic() < deadline:
        # Asleep twice, and not awake in between: it does not wait for a mutex that another is to let go of.
        if now == before and all(state.startswith("S") for state, _ in now.values()):
            return
        before = now
        time.sleep(0.001)


def _threads() -> dict[str, tuple[str, str]]:
    """State of each of the threads, and how often it has fallen asleep; empty where none is known.

    Reading lets go of the interpreter's lock. So a thread that waits for that is no longer asleep.
    """
    found = {}
    for task in _TASKS.glob("*"):
        try:
            text = (task / "status").read_text("utf-8", "replace")
        except OSError:  # ended meanwhile
            continue
        fields = dict(line.partition(":\t")[::2] for line in text.splitlines())
        if fields.get("Name", "").startswith(_NAME):
            found[task.name] = (fields.get("State", ""), fields.get("voluntary_ctxt_switches", ""))
    return found
