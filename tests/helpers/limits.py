"""How long tests wait before they call it a hang.

A limit ends what hangs and judges no speed, so it is generous. On a slow machine, TIMING_LOGGER_TEST_LIMIT=3
makes all of them three times as long.
"""

from __future__ import annotations

import os

VARIABLE = "TIMING_LOGGER_TEST_LIMIT"


def _factor() -> float:
    factor = float(os.environ.get(VARIABLE, "1"))
    if not factor >= 1:
        raise ValueError(f"{VARIABLE}={factor:g} must be >= 1: shorter limits fail what is only slow")
    return factor


_FACTOR = _factor()


def scaled(seconds: float) -> float:
    """Return the limit here for what has ``seconds`` on a usual machine."""
    return seconds * _FACTOR


LIMIT_S = scaled(120)
"""For an event: a file, a line of output, the end of a thread. Often a process has to start before it."""

PROCESS_S = scaled(120)
"""For a whole process."""

JOB_S = scaled(300)
"""For a job of several processes."""

MONITOR_S = scaled(480)
"""For what a monitor says: it runs behind all else, and beside busy processes has a hundredth of a core."""
