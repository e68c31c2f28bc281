"""Does the process that writes a timing file still run, and where? Only its own machine can tell.

Where it stands is read from its ring, as its sidecar may be 10 s old. The rings of processes that are gone
were recovered before.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from timing_logger.process import this_process
from timing_logger.process.dead_rings import header_of, opened_ring, ring_of
from timing_logger.process.shared_files import owner_of
from timing_logger.process.sidecar_files import read_sidecar
from timing_logger.results import criteria
from timing_logger.schema.record import INFLIGHT, NS_PER_S, Record
from timing_logger.schema.ring_file import NotARing, Ring, read_ring
from timing_logger.schema.sidecar import OpenCallInfo, SidecarDict
from timing_logger.schema.timing_files import sidecar_path

_STATE, _START_TICKS = 0, 19  # in /proc/PID/stat, after the name of the program


def is_here(sidecar: dict[str, Any]) -> bool:
    """Tell whether this is the machine that the process ran on, not started again since."""
    return (sidecar.get("host"), sidecar.get("boot_id")) == (this_process.host_name(), this_process.boot_id())


def lives(sidecar: dict[str, Any]) -> bool | None:
    """Tell whether the process of a sidecar still runs; None if that cannot be known here.

    Args:
        sidecar: as ``read_sidecar`` returns it.
    """
    namespace, pid = sidecar.get("pid_namespace"), sidecar.get("pid")
    if not is_here(sidecar) or not namespace or namespace != this_process.pid_namespace() or not pid:
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
    return age_ns < criteria.GONE_AFTER_S * NS_PER_S


def _is_younger(start_ticks: int, sidecar: dict[str, Any]) -> bool:
    """Tell whether the process that has the number now began after the logger had begun."""
    anchors = sidecar.get("clock_anchors")
    if not anchors:
        return False
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - start_ticks / os.sysconf("SC_CLK_TCK")
    logging_s: float = anchors[0]["perf_counter_ns"] / NS_PER_S
    return time.perf_counter() - age_s > logging_s + criteria.STARTED_AGAIN_S


ALIVE = "alive_unix_ns"
"""The key under which a sidecar that was read states when its process was seen to run."""


def as_it_stands(sidecar: SidecarDict | None, timing_file: Path) -> SidecarDict | None:
    """Return the sidecar of a process with what can be known here of where it stands.

    That is what its ring says of its open calls and groups, and when; and whether the process is gone, though
    it never closed its logger.

    Args:
        sidecar: as ``read_sidecar`` returns it.
        timing_file: the file that it describes.

    Returns:
        ``sidecar`` itself if the process has closed its logger, or nothing more can be known here.
    """
    if sidecar is None or not _may_be_here(sidecar):
        return sidecar
    if (runs := lives(sidecar)) is not False:
        found = _with_ring(sidecar, timing_file)
        return found | {ALIVE: time.time_ns()} if runs else found
    now = read_sidecar(timing_file) or sidecar  # it may have closed its logger a moment ago
    return _with_ring(now, timing_file) | {"killed": True} if _may_be_here(now) else now


def _with_ring(sidecar: SidecarDict, timing_file: Path) -> SidecarDict:
    ring = _ring(sidecar, timing_file)
    if ring is None:
        return sidecar
    open_calls = _still_open(ring)
    lived_unix_ns = max([ring.looked_ns, *(call.start_ns for call in open_calls)]) + ring.wall_offset_ns
    if lived_unix_ns > time.time_ns() + NS_PER_S:  # damaged
        return sidecar
    found = sidecar | {
        "open_calls": [OpenCallInfo.of(call)._asdict() for call in open_calls],
        "updated_unix_ns": max(lived_unix_ns, sidecar.get("updated_unix_ns", 0)),
    }
    if not ring.looked_ns:
        return found
    groups = [group._asdict() for group in ring.groups]
    return found | {"groups": groups, "last_progress_counter_ns": ring.progressed_ns}


def _may_be_here(sidecar: SidecarDict) -> bool:
    return sidecar.get("closed") is False and not sidecar.get("killed") and is_here(sidecar)


def _ring(sidecar: SidecarDict, timing_file: Path) -> Ring | None:
    path = ring_of(sidecar)
    with suppress(OSError, NotARing):
        if path is not None:
            with opened_ring(path, owner_of(sidecar_path(timing_file))) as descriptor:
                header_of(descriptor, path, timing_file, sidecar)
                return read_ring(descriptor)
    return None


def _still_open(ring: Ring) -> list[Record]:
    """Return the calls that were open at the last look and of which no record tells the end since."""
    ended = {_call(record) for record in map(Record._make, ring.records) if record.status != INFLIGHT}
    return [record for record in map(Record._make, ring.open_calls) if _call(record) not in ended]


def _call(record: Record) -> tuple[str, str, int | None, int]:
    return record.operation, record.group, record.seq, record.start_ns
