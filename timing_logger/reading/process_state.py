"""Does the process that writes a timing file still run? Only its own machine can tell."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from timing_logger.record import NS_PER_S
from timing_logger.run_info import boot_id, host_name, pid_namespace

_FRESH_S = 30.0  # a process updates its sidecar every 10 s
_STATE, _START_TICKS = 0, 19  # in /proc/PID/stat, after the name of the program
_SLACK_S = 1.0


def is_here(sidecar: dict[str, Any]) -> bool:
    """Tell whether this is the machine that the process ran on, not started again since."""
    return (sidecar.get("host"), sidecar.get("boot_id")) == (host_name(), boot_id())


def lives(sidecar: dict[str, Any]) -> bool | None:
    """Tell whether the process of a sidecar still runs; None if that cannot be known here.

    Args:
        sidecar: as ``read_sidecar`` returns it.
    """
    namespace, pid = sidecar.get("pid_namespace"), sidecar.get("pid")
    if not is_here(sidecar) or not namespace or namespace != pid_namespace() or not pid:
        return None
    try:
        about = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except FileNotFoundError:
        return False
    except OSError:
        return None
    return about[_STATE] not in (b"Z", b"X") and not _is_younger(int(about[_START_TICKS]), sidecar)


def gave_a_sign_lately(sidecar: dict[str, Any]) -> bool:
    """Tell whether the sidecar is so new that its process probably runs."""
    age_ns: int = time.time_ns() - sidecar.get("updated_unix_ns", 0)
    return age_ns < _FRESH_S * NS_PER_S


def _is_younger(start_ticks: int, sidecar: dict[str, Any]) -> bool:
    """Tell whether the process that has the number now began after the logger had begun."""
    anchors = sidecar.get("clock_anchors")
    if not anchors:
        return False
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - start_ticks / os.sysconf("SC_CLK_TCK")
    logging_s: float = anchors[0]["perf_counter_ns"] / NS_PER_S
    return time.perf_counter() - age_s > logging_s + _SLACK_S
