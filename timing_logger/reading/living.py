"""Find out where a process stands that still runs, from its ring, as its sidecar may be 10 s old.

The rings of processes that are gone were recovered before, and of other machines nothing can be known here.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from timing_logger.record import INFLIGHT, NS_PER_S, Record
from timing_logger.ring_file import MOST_BYTES, NotARing, Ring, read_ring
from timing_logger.run_info import OpenCallInfo, boot_id, host_name

Sidecar = dict[str, Any]


def as_it_stands(sidecar: Sidecar | None) -> Sidecar | None:
    """Return the sidecar of a process with what its ring says of its open calls and groups, and when.

    Args:
        sidecar: as ``read_sidecar`` returns it.

    Returns:
        ``sidecar`` itself if the process has ended, has no ring, or is out of reach.
    """
    if sidecar is None or not _may_be_here(sidecar):
        return sidecar
    ring = _ring_at(Path(str(sidecar["ring_path"])))
    if ring is None or ring.started_unix_ns != sidecar.get("started_unix_ns"):
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


def _may_be_here(sidecar: Sidecar) -> bool:
    return (
        sidecar.get("closed") is False
        and not sidecar.get("killed")
        and os.path.isabs(sidecar.get("ring_path") or "")
        and (sidecar.get("host"), sidecar.get("boot_id")) == (host_name(), boot_id())
    )


def _ring_at(path: Path) -> Ring | None:
    with suppress(OSError, NotARing):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            about = os.fstat(descriptor)
            if stat.S_ISREG(about.st_mode) and about.st_size <= MOST_BYTES:
                return read_ring(descriptor)
        finally:
            os.close(descriptor)
    return None


def _still_open(ring: Ring) -> list[Record]:
    """Return the calls that were open at the last look and of which no record tells the end since."""
    ended = {_call(record) for record in map(Record._make, ring.records) if record.status != INFLIGHT}
    return [record for record in map(Record._make, ring.open_calls) if _call(record) not in ended]


def _call(record: Record) -> tuple[str, str, int | None, int]:
    return record.operation, record.group, record.seq, record.start_ns
