"""What is done with the ring of another process, by whoever reads its files or needs the memory.

A ring is taken for that of a timing file only if nobody but the file's owner can have made or changed it: the
sidecar that names it may be read, and in a shared folder replaced, by others.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from timing_logger.process.shared_files import UntrustedFileError, content_of, open_owned, replace, unlock
from timing_logger.schema.ring_file import MOST_BYTES, NotARing, Ring, RingHeader, ring_header
from timing_logger.schema.timing_files import TimingFile


def ring_of(sidecar: dict[str, Any]) -> Path | None:
    """Return the path of the ring that a sidecar names; None if it names none."""
    named = str(sidecar.get("ring_path") or "")
    return Path(named) if os.path.isabs(named) and "\0" not in named else None


@contextmanager
def opened_ring(path: Path, owner: int) -> Iterator[int]:
    """Open the ring of the user ``owner`` for reading; a lock that was taken is let go at the end.

    Raises:
        UntrustedFileError: what is there cannot be trusted.
        NotARing: it is larger than any ring.
        OSError: the file system's error.
    """
    descriptor = open_owned(path, owner, private=True)
    try:
        if os.fstat(descriptor).st_size > MOST_BYTES:
            raise NotARing("it is larger than any ring")
        yield descriptor
    finally:
        unlock(descriptor)
        os.close(descriptor)


def header_of(descriptor: int, path: Path, timing_file: Path, sidecar: dict[str, Any]) -> RingHeader:
    """Return the header of a ring that is of the run that the sidecar describes.

    The path in the header is not compared: a folder may have been copied or moved, and a file renamed.

    Raises:
        NotARing: it is none.
        UntrustedFileError: it is of another run.
    """
    header = ring_header(descriptor)
    named, this = TimingFile.parse(header.timing_file.name), TimingFile.parse(timing_file.name)
    run = sidecar.get("pid"), sidecar.get("started_unix_ns")
    if (header.pid, header.started_unix_ns) != run or not named or not this or named.rank != this.rank:
        raise UntrustedFileError(path, "it is of another run")
    return header


def mark_killed(sidecar: Path, ring: Ring) -> None:
    """Have a sidecar say that its process is gone, which nobody could know before, how far it came, and when.

    Raises:
        OSError: the file system's error.
        ValueError: it is no JSON object.
    """
    content = json.loads(content_of(sidecar))
    content |= {"killed": True, **_last_look(ring, content.get("updated_unix_ns"))}
    # who may read it, and whose it is, stays as it was
    replace(sidecar, f"{json.dumps(content, indent=1)}\n".encode(), like=sidecar.stat())


def _last_look(ring: Ring, updated_unix_ns: object) -> dict[str, Any]:
    """Return what a sidecar states of the last moment at which the process looked where it stood.

    It did so four times a second, and wrote its sidecar every 10 s.
    """
    looked_unix_ns = ring.looked_ns + ring.wall_offset_ns
    if not ring.looked_ns or looked_unix_ns > time.time_ns():  # the clock was set back
        return {}
    latest = max(looked_unix_ns, updated_unix_ns if isinstance(updated_unix_ns, int) else 0)
    groups = {"groups": [group._asdict() for group in ring.groups]} if ring.groups else {}
    return {"updated_unix_ns": latest, "last_progress_counter_ns": ring.progressed_ns, **groups}
