"""Backs a logger's channel by a file of this machine, so that its records survive the process."""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path

from timing_logger.errors import LogPathError
from timing_logger.recording.channel import Channel
from timing_logger.recording.clock import WallClock
from timing_logger.ring_file import NotARing, header_path

DEFAULT_FOLDER = Path("/dev/shm")
_SHARE = 8
"""By default, a ring takes at most one part in so many of what is free: others use that folder, too."""

_BYTES_PER_RECORD = 128


def back(channel: Channel, folder: Path | None, timing_file: Path, clock: WallClock) -> str:
    """Back ``channel`` by a new file in ``folder``, and return its path.

    Args:
        folder: None for /dev/shm, if there is one and room in it.
        timing_file: the file that the records go to.
        clock: the wall clock, for timestamps of what is recovered.

    Returns:
        The path; "" if there is none, because no folder was given and the default cannot be used, or the
        channel cannot be backed.

    Raises:
        LogPathError: the folder that was given cannot hold the file.
    """
    if not hasattr(channel, "back_by"):
        if folder is not None:
            raise LogPathError(
                f"ring_dir={str(folder)!r} needs the native core and a maxsize of at most a million: "
                "timing_logger.core says which core there is."
            )
        return ""
    place = DEFAULT_FOLDER if folder is None else folder
    path = place.absolute() / f"timing-logger-{os.getuid()}-{os.getpid()}-{secrets.token_hex(4)}.ring"
    try:
        _remove_orphans(place)
        if folder is None and not _has_room(place, channel.capacity * _BYTES_PER_RECORD):
            return ""
        channel.back_by(
            path, timing_file.absolute(), clock.anchors[0].unix_ns, clock.anchors[0].wall_offset_ns
        )
    except OSError as error:
        if folder is None:
            return ""
        raise LogPathError(f"ring_dir: {str(folder)!r} cannot hold a ring: {error}.") from error
    return str(path)


def _has_room(folder: Path, n_bytes: int) -> bool:
    about = os.statvfs(folder)
    return n_bytes * _SHARE <= about.f_bavail * about.f_frsize


def _remove_orphans(folder: Path) -> None:
    """Remove this user's rings whose process is gone, and whose timing file nobody can ask for any more."""
    for path in folder.glob(f"timing-logger-{os.getuid()}-*.ring"):
        with suppress(OSError, NotARing), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not header_path(file.read(4096)).exists():
                path.unlink()
