"""Backs a logger's channel by a file of this machine's memory, so that its records survive the process."""

from __future__ import annotations

import errno
import logging
import os
import secrets
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from timing_logger.errors import LogPathError
from timing_logger.process.dead_rings import header_of, mark_killed, opened_ring
from timing_logger.process.shared_files import locked, matching, remove
from timing_logger.process.sidecar_files import parts_of, read_sidecar
from timing_logger.recording.clock import WallClock
from timing_logger.recording.cores.channel import Channel
from timing_logger.schema.defaults import QUEUE_RECORDS, RECORD_LATEST_S
from timing_logger.schema.ring_file import MOST_RECORDS, SLOT_BYTES, read_ring, ring_header
from timing_logger.schema.sidecar import CrashProtection
from timing_logger.schema.timing_files import sidecar_path

log = logging.getLogger("timing_logger")

SHARED_MEMORY = Path("/dev/shm")

_SHARE, _LARGEST_SHARE = 8, 4
"""A ring takes one part in 8 of what is free, as others use that folder, too; the smallest one in 4."""

_OTHER_BYTES = 2_300_000  # names, open calls, and the records that are being written
_LEAST_RECORDS = 16_384
_IN_MEMORY = {"tmpfs", "ramfs"}

BYTES_PER_MB = 10**6

_LACKS_NAMES = (
    "the ring has no room for another name: it holds 16,384 different ones, of 1 MiB in all, and records "
    "with further ones are only in the process's own memory. Do names such as layer_name count something?"
)

_said: set[str] = set()


class Backing:
    """The file behind a channel, if there is one, and what becomes of it.

    Attributes:
        path: the file's path; "" if there is none.
        protection: what the sidecar says of it.
    """

    def __init__(self, channel: Any, path: str, protection: CrashProtection) -> None:
        self._channel = channel
        self._made = protection
        self.path = path
        self.protection = protection

    def look_after(self) -> None:
        """Put a new file in the place of one that was removed; called by the flush thread."""
        if not self.path:
            return
        try:
            is_new = self._channel.renew_file()
        except OSError as error:
            lost = f"{self.path!r} was removed, and no new one can be made: {error.strerror}"
            self.protection = CrashProtection(False, lost)
            _say_once("timing logger: the ring %s: what is recorded just before a kill would be lost", lost)
        else:
            self.protection = self._made
            if is_new:
                _say_once("timing logger: the ring %r was removed: a new one is in its place", self.path)
            if self._channel.lacks_names:
                self.protection = CrashProtection(False, _LACKS_NAMES)
                _say_once("timing logger: crash protection ends here: %s", _LACKS_NAMES)


def back(
    channel: Channel, folder: Path | None, timing_file: Path, clock: WallClock, flush_interval_s: float
) -> Backing:
    """Back ``channel`` by a new file, where there is room for one; if there is none, the log says so.

    Args:
        channel: the channel, before anything is put. Its capacity becomes what the file holds.
        folder: where the file is to be; None for a folder in memory, such as /dev/shm.
        timing_file: the file that the records go to.
        clock: the wall clock, for timestamps of what is recovered.
        flush_interval_s: seconds within which a record is in the timing file.

    Raises:
        LogPathError: the folder that was given cannot hold the file.
    """
    maker = _Maker(channel, timing_file, clock)
    if folder is not None:
        return maker.in_folder(folder)
    backing = maker.anywhere()
    if not backing.protection.on:
        _say_once(
            "timing logger: no crash protection (%s): what is recorded in the last %g s before a kill would "
            "be lost%s",
            backing.protection.reason,
            flush_interval_s + RECORD_LATEST_S,
            "; ring_dir names another folder for it" if not maker.why_not else "",
        )
    elif backing.protection.reason:
        _say_once("timing logger: %s", backing.protection.reason)
    return backing


class _Maker:
    """Makes the file for one channel; ``why_not`` is "" if a folder with enough room is all that it takes."""

    def __init__(self, channel: Channel, timing_file: Path, clock: WallClock) -> None:
        self._channel: Any = channel
        self._timing_file = timing_file.absolute()
        self._started = clock.anchors[0]
        self._asked = channel.capacity
        self.why_not = ""
        if not hasattr(channel, "back_by"):
            self.why_not = "the Python core has none"
        elif self._asked > MOST_RECORDS:
            self.why_not = f"maxsize={self._asked}, and a ring holds at most {MOST_RECORDS} records"

    def in_folder(self, folder: Path) -> Backing:
        if self.why_not:
            raise LogPathError(
                f"ring_dir={str(folder)!r} cannot be used: {self.why_not}. "
                "timing_logger.recording_core says which core there is."
            )
        remove_left_rings(folder)
        try:
            return Backing(self._channel, self._made_in(folder), CrashProtection(True, ""))
        except OSError as error:
            raise LogPathError(f"ring_dir: {str(folder)!r} cannot hold a ring: {error}.") from error

    def anywhere(self) -> Backing:
        reasons = []
        for folder in [] if self.why_not else _folders():
            remove_left_rings(folder)
            try:
                return self._fitted_into(folder)
            except OSError as error:
                reasons.append(f"{str(folder)!r}: {error.strerror}")
        return Backing(self._channel, "", CrashProtection(False, self.why_not or "; ".join(reasons)))

    def _fitted_into(self, folder: Path) -> Backing:
        """Make the file as large as is fit there.

        Raises:
            OSError: the folder is no place for it.
        """
        check_is_in_memory(folder)
        path = self._made_in(folder, _most_records(folder, self._asked))
        if self._channel.capacity == self._asked:
            return Backing(self._channel, path, CrashProtection(True, ""))
        said = (
            f"the queue holds {self._channel.capacity} records and not maxsize={self._asked}, as there is no "
            f"room in {str(folder)!r} for more of them to survive a kill"
        )
        return Backing(self._channel, path, CrashProtection(True, said))

    def _made_in(self, folder: Path, capacity: int | None = None) -> str:
        path = folder.absolute() / f"timing-logger-{os.getuid()}-{os.getpid()}-{secrets.token_hex(4)}.ring"
        started = self._started
        self._channel.back_by(path, self._timing_file, started.unix_ns, started.wall_offset_ns, capacity)
        return str(path)


def _folders() -> list[Path]:
    return list(dict.fromkeys([SHARED_MEMORY, Path(os.environ.get("TMPDIR") or "/tmp")]))


def _most_records(folder: Path, asked: int) -> int:
    """Return for how many records a ring in ``folder`` may be.

    Raises:
        OSError: there is no room even for a small one, or not for a queue that was asked to be a long one.
    """
    about = os.statvfs(folder)
    free_bytes = about.f_bavail * about.f_frsize
    if _n_bytes(asked) * _SHARE <= free_bytes:
        return asked
    least = min(asked, _LEAST_RECORDS)
    if asked > QUEUE_RECORDS or _n_bytes(least) * _LARGEST_SHARE > free_bytes:
        needed = asked if asked > QUEUE_RECORDS else least
        raise OSError(
            errno.ENOSPC,
            f"{free_bytes / BYTES_PER_MB:.1f} MB are free, too few beside a ring of "
            f"{_n_bytes(needed) / BYTES_PER_MB:.1f} MB",
        )
    return min(asked, max(least, (free_bytes // _SHARE - _OTHER_BYTES) // SLOT_BYTES))


def _n_bytes(n_records: int) -> int:
    return n_records * SLOT_BYTES + _OTHER_BYTES


def check_is_in_memory(folder: Path) -> None:
    """Refuse a folder on a disk or a network, for which a recording call would have to wait.

    Raises:
        OSError: it is none, or on such a file system, or which one is not known.
    """
    device = os.stat(folder).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
        about, _, kind = line.partition(" - ")
        if about.split()[2] == number:
            if kind.split()[0] in _IN_MEMORY:
                return
            raise OSError(errno.ENOTSUP, f"it is not in memory but on {kind.split()[0]}")
    raise OSError(errno.ENOTSUP, "its file system is not known")


def _say_once(message: str, *details: object) -> None:
    """Log a warning of each kind once in a process."""
    if message not in _said:
        _said.add(message)
        log.warning(message, *details)


# -- rings that killed processes of this user left -----------------------------------------------------
# What a process had not written, or was in when it was killed, is evidence: such a ring stays until a
# reader has taken it, or until its timing file is gone.


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
        for path in matching(folder, f"timing-logger-{os.getuid()}-*.ring"):
            with suppress(OSError, ValueError):
                if _is_needed_no_more(path):
                    remove(path)
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


def _is_in_the_file(descriptor: int, path: Path, timing_file: Path) -> bool:
    """Tell whether the files of a process tell all that its ring does. Have them say that it was killed."""
    sidecar = read_sidecar(timing_file)
    if sidecar is None:
        return False
    header = header_of(descriptor, path, timing_file, sidecar)
    ring = read_ring(descriptor) if header.released == header.head else None
    if ring is None or ring.records or ring.open_calls or ring.elsewhere or ring.damaged:
        return False
    if not sidecar.get("killed"):
        mark_killed(sidecar_path(timing_file), ring)
    return True
