"""Writes what a killed process had recorded and not written into its timing file, from the ring that it left.

Only what the file does not hold is written. So it makes no difference when the process was killed, whether an
earlier recovery was interrupted, or how often it is done.
"""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from timing_logger.record import HEADER, RawRecord, format_records
from timing_logger.ring_file import MOST_BYTES, NotARing, Ring, read_ring
from timing_logger.run_info import TimingFile, boot_id, host_name, read_sidecar, sidecar_path

_END_OF_TORN = b"\0\n"
_SLACK_BYTES = 2**20  # of rows among them that no slot held


class Recovery(NamedTuple):
    """What became of one ring.

    Attributes:
        file: the path of the timing file, in its first part.
        rows: how many rows were added to it.
        trouble: what could not be done, in words; "" if nothing.
    """

    file: Path
    rows: int
    trouble: str = ""

    def __str__(self) -> str:
        said = (
            [f"{_counted(self.rows, 'row')} added that a killed process had not written"] if self.rows else []
        )
        return "; ".join([*said, *([self.trouble] if self.trouble else [])])


def recover(folder: Path) -> list[Recovery]:
    """Recover the rows of all killed processes whose timing files are in ``folder``.

    The rings of processes that still run are left alone. Those that cannot be reached from here, because
    they are on another machine or another user's, are told of.

    Returns:
        What was done or could not be done, of each file that there was anything to say about.
    """
    files = [path for path in sorted(folder.glob("timing-rank*.csv")) if _is_first_part(path)]
    found = (recover_file(path) for path in files)
    return [recovery for recovery in found if recovery is not None and str(recovery)]


def recover_file(timing_file: Path) -> Recovery | None:
    """Recover the rows of one timing file; None if no process left a ring for it."""
    sidecar = read_sidecar(timing_file)
    path = Path(str((sidecar or {}).get("ring_path") or ""))
    if sidecar is None or not path.is_absolute():
        return None
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return _out_of_reach(timing_file, path, error)
    try:
        if not _locked(descriptor, path):
            return None
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_size > MOST_BYTES:
            return None
        ring = read_ring(descriptor)
        if ring.started_unix_ns != sidecar.get("started_unix_ns"):
            return None
        rows = _write_missing(timing_file, ring)
        with suppress(OSError):  # where nothing can be written, all rows were there before
            _mark_killed(sidecar_path(timing_file), ring)
            if not _is_a_copy(timing_file, ring):
                path.unlink()
        return Recovery(timing_file, rows, _lost(ring))
    except NotARing as error:
        return Recovery(
            timing_file, 0, f"what a killed process left in {str(path)!r} cannot be read: {error}"
        )
    except OSError as error:
        return Recovery(
            timing_file,
            0,
            f"rows of a killed process stay in {str(path)!r}, as they cannot be added here: "
            f"{error.strerror or error}",
        )
    finally:
        os.close(descriptor)


def _out_of_reach(timing_file: Path, ring: Path, error: OSError) -> Recovery | None:
    """Say what may be missing in a file whose ring cannot be opened; None if its process closed it."""
    sidecar = read_sidecar(timing_file) or {}
    if sidecar.get("closed") is not False or sidecar.get("killed"):
        return None
    if isinstance(error, PermissionError):
        where = f"in {str(ring)!r}, which only its user may read: have that user run timing-logger recover"
    elif (sidecar.get("host"), sidecar.get("boot_id")) != (host_name(), boot_id()):
        where = f"on {sidecar.get('host') or 'another machine'}: run timing-logger recover there"
    else:
        return None
    return Recovery(timing_file, 0, f"not closed: rows that its process had not yet written may be {where}")


def _is_a_copy(timing_file: Path, ring: Ring) -> bool:
    """Return whether the file that the process wrote is another one, which still needs the ring."""
    try:
        if ring.timing_file.samefile(timing_file):
            return False
    except OSError:
        return False
    return (read_sidecar(ring.timing_file) or {}).get("started_unix_ns") == ring.started_unix_ns


def _is_first_part(path: Path) -> bool:
    name = TimingFile.parse(path.name)
    return name is not None and name.part == 1


def _locked(descriptor: int, path: Path) -> bool:
    """Return whether the ring's writer is gone, and nobody else recovers it or has just done so."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    with suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    return False


def _mark_killed(sidecar: Path, ring: Ring) -> None:
    """Have the sidecar say that its process is gone, which nobody could know before, and how far it came."""
    content = json.loads(sidecar.read_text())
    content["killed"] = True
    if ring.groups:
        content["groups"] = [group._asdict() for group in ring.groups]
    draft = sidecar.with_name(f"{sidecar.name}.{os.getpid()}.tmp")
    draft.unlink(missing_ok=True)  # left by a killed process with this pid, or a link set as a trap
    with draft.open("x") as file:
        about = sidecar.stat()  # who may read it, and whose it is, stays as it was
        os.fchmod(file.fileno(), stat.S_IMODE(about.st_mode))
        with suppress(OSError):
            os.fchown(file.fileno(), about.st_uid, about.st_gid)
        file.write(json.dumps(content, indent=1) + "\n")
    os.replace(draft, sidecar)


def _lost(ring: Ring) -> str:
    lost = ring.elsewhere + ring.damaged
    return f"{_counted(lost, 'record')} lost that only the process held" if lost else ""


def _counted(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _write_missing(timing_file: Path, ring: Ring) -> int:
    """Append the records of the ring that are not in the file, and return how many that were."""
    lines = _lines([*ring.records, *ring.open_calls], ring.wall_offset_ns)
    parts = _parts(timing_file)
    there = Counter(
        _without_timestamp(line) for line in _last_lines(parts, sum(map(len, lines)) + _SLACK_BYTES)
    )
    missing = []
    for line in lines:
        key = _without_timestamp(line.encode().rstrip(b"\n"))
        if there[key]:
            there[key] -= 1
        else:
            missing.append(line)
    if missing:
        _append(parts[-1], [line.encode() for line in missing])
    return len(missing)


def _lines(records: Sequence[RawRecord], wall_offset_ns: int) -> list[str]:
    return format_records(records, wall_offset_ns).splitlines(keepends=True) if records else []


def _parts(timing_file: Path) -> list[Path]:
    """Return the parts of the file that are there as text, in order.

    Raises:
        FileNotFoundError: none is.
    """
    first = TimingFile.parse(timing_file.name)
    numbered = [
        (name.part, path)
        for path in timing_file.parent.glob("timing-rank*.csv")
        if (name := TimingFile.parse(path.name)) is not None and name.first == first
    ]
    if not numbered:
        raise FileNotFoundError(f"{str(timing_file)!r} is gone")
    return [path for _, path in sorted(numbered)]


def _last_lines(parts: list[Path], n_bytes: int) -> Iterator[bytes]:
    for path in reversed(parts):
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - n_bytes))
            yield from file.read().split(b"\n")
        n_bytes -= size
        if n_bytes <= 0:
            return


def _without_timestamp(line: bytes) -> bytes:
    """Return the line without the wall clock, which may have been another one when the process wrote it."""
    return line.partition(b",")[2]


def _append(path: Path, lines: Sequence[bytes]) -> None:
    """Append whole lines. A torn line at the end is replaced if it is one of them, else ended by a NUL."""
    # Not through a link, which root would follow into a file that who laid it may not write.
    with open(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _SLACK_BYTES))
        torn = file.read().rpartition(b"\n")[2]
        is_among_them = any(line.startswith(torn) for line in lines)
        file.seek(size - len(torn) if is_among_them else size)
        head = HEADER.encode() if not size else b"" if is_among_them else _END_OF_TORN
        file.write(head + b"".join(lines))  # longer than what it is written over
        file.flush()
        os.fsync(file.fileno())
