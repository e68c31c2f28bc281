"""Waits until gloo's threads are idle before the interpreter shuts down.

The thread that ran an operation still has work to do when those who waited for the operation go on: it
releases the tensors, and torch takes the interpreter's lock for each. A thread that asks for the lock
during shutdown is ended, and the process is aborted. This happens with torch alone, too; but timing, whose
callbacks come in between, must not make it more frequent.
"""

from __future__ import annotations

import time
from pathlib import Path

_TASKS = Path("/proc/self/task")  # Linux only; elsewhere the state of gloo's threads is unknown
_NAME = "pt_gloo"  # torch's prefix of the names of the threads that run operations
_LIMIT_S = 2.0  # a thread that takes longer still runs an operation


def let_rest() -> None:
    """Wait, for 2 seconds at most, until all of gloo's threads are idle."""
    deadline = time.monotonic() + _LIMIT_S
    before = None
    while (now := _threads()) and time.monotonic() < deadline:
        # Asleep twice without waking in between: then it does not just wait for a mutex of another thread.
        if now == before and all(state.startswith("S") for state, _ in now.values()):
            return
        before = now
        time.sleep(0.001)


def _threads() -> dict[str, tuple[str, str]]:
    """Return each thread's state and how often it has fallen asleep, by thread id; empty if unknown.

    Reading the files releases the interpreter's lock, so a thread that waits for the lock wakes up.
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
