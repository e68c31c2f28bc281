"""Removes the rings that killed processes of this user left and that nobody needs: they take memory.

What a process had not written, or was in when it was killed, is evidence: such a ring stays until a reader
has taken it, or until its timing file is gone.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from timing_logger.dead_rings import header_of, locked, mark_killed, opened_ring
from timing_logger.ring_file import Ring, read_ring, ring_header
from timing_logger.run_info import parts_of, read_sidecar, sidecar_path

_MOST_SECONDS = 0.5
"""What a new logger waits for at most: the timing files of others may be on a disk that does not answer."""

_running = threading.Lock()


def remove_left_rings(folder: Path) -> None:
    """Remove what can be removed in a moment; whatever takes longer goes on in the background."""
    if not _running.acquire(blocking=False):
        return  # the last one still waits for a disk
    worker = threading.Thread(target=_remove, args=(folder,), name="timing-logger-rings", daemon=True)
    try:
        worker.start()
    except RuntimeError:  # the system has no thread left
        _running.release()
    else:
        worker.join(_MOST_SECONDS)


def _remove(folder: Path) -> None:
    until_s = time.monotonic() + _MOST_SECONDS
    try:
        for path in folder.glob(f"timing-logger-{os.getuid()}-*.ring"):
            with suppress(OSError, ValueError):
                if _is_needed_no_more(path):
                    path.unlink()
            if time.monotonic() > until_s:
                return  # the next logger removes more
    finally:
        _running.release()


def _is_needed_no_more(path: Path) -> bool:
    with opened_ring(path, os.getuid()) as descriptor:
        timing_file = ring_header(descriptor).timing_file  # before the lock: one that is being made has none
        if not locked(descriptor):
            return False
        try:
            parts_of(timing_file)
        except FileNotFoundError:
            return not sidecar_path(timing_file).exists()
        return _is_in_the_file(descriptor, path, timing_file)


def _tells_more(ring: Ring) -> bool:
    return bool(ring.records or ring.open_calls or ring.elsewhere or ring.damaged)


def _is_in_the_file(descriptor: int, path: Path, timing_file: Path) -> bool:
    """Tell whether the files of a process tell all that its ring does. Have them say that it was killed."""
    sidecar = read_sidecar(timing_file)
    if sidecar is None:
        return False
    header = header_of(descriptor, path, timing_file, sidecar)
    if header.released != header.head or _tells_more(ring := read_ring(descriptor)):
        return False
    if not sidecar.get("killed"):
        mark_killed(sidecar_path(timing_file), ring)
    return True
