"""Writes what a killed process had recorded and not written into its timing file, from the ring that it left.

What cannot be recovered is told, and so is what cannot be known: where a process ended without closing its
logger and left no ring, nobody can say whether rows are missing.
"""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from timing_logger.process.dead_rings import header_of, mark_killed, opened_ring, ring_of
from timing_logger.process.interrupts import held_back
from timing_logger.process.progress import each
from timing_logger.process.shared_files import (
    UntrustedFileError,
    create_for,
    locked,
    matching,
    opened_owned,
    owner_of,
    owner_of_both,
    remove,
)
from timing_logger.process.sidecar_files import parts_of, read_sidecar
from timing_logger.reading.living import gave_a_sign_lately, is_here, lives
from timing_logger.schema.record import HEADER, format_records, unescape_text
from timing_logger.schema.ring_file import NotARing, Ring, RingHeader, read_ring
from timing_logger.schema.sidecar import SidecarDict
from timing_logger.schema.timing_files import TimingFile, sidecar_path

_END_OF_TORN = b"\0\n"
_SLACK_BYTES = 2**20  # of rows among them that no slot held


def write_missing(parts: Sequence[Path], owner: int, ring: Ring) -> int:
    """Append the records of a ring that are in no part of a file to the last part.

    Args:
        parts: the parts of the file that are there as text, in order.
        owner: the uid whose files these must be.
        ring: what the process left.

    Returns:
        How many rows that were.

    Raises:
        OSError: a part is another user's, or no file, or the file system's error.
    """
    text = format_records([*ring.records, *ring.open_calls], ring.wall_offset_ns)
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    there = Counter(map(_key, _last_lines(parts, owner, sum(map(len, lines)) + _SLACK_BYTES)))
    missing = []
    for line in lines:
        key = _key(line[:-1])
        if there[key]:
            there[key] -= 1
        else:
            missing.append(line)
    if missing:
        _append(parts[-1], owner, missing)
    return len(missing)


def _last_lines(parts: Sequence[Path], owner: int, n_bytes: int) -> Iterator[bytes]:
    for path in reversed(parts):
        with opened_owned(path, owner) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - n_bytes))
            yield from file.read().split(b"\n")
        n_bytes -= size
        if n_bytes <= 0:
            return


def _key(line: bytes) -> bytes:
    """Return what tells a line from others, whoever wrote it.

    That is the line without the wall clock, which may have been another one when the process wrote it, and
    without escapes: the library for --native-mpi escapes more than this package does.
    """
    key = line.partition(b",")[2]
    if b"\\" not in key:
        return key
    return unescape_text(key.decode(errors="surrogateescape")).encode(errors="surrogatepass")


def _append(path: Path, owner: int, lines: Sequence[bytes]) -> None:
    """Append whole lines. A torn line at the end is replaced if it is one of them, else ended by a NUL."""
    with opened_owned(path, owner, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _SLACK_BYTES))
        torn = file.read().rpartition(b"\n")[2]
        is_among_them = any(line.startswith(torn) for line in lines)
        file.seek(size - len(torn) if is_among_them else size)
        head = HEADER.encode() if not size else b"" if is_among_them else _END_OF_TORN
        file.write(head + b"".join(lines))  # longer than what it is written over
        file.flush()
        os.fsync(file.fileno())


_SIDECARS = "timing-rank*.meta.json"
_PATIENCE_S = 10.0  # for other readers that recover the same files
_LOOK_S = 0.02


class Recovery(NamedTuple):
    """What became of the records of one process.

    Attributes:
        file: the path of the timing file, in its first part.
        rows: how many rows were added to it.
        trouble: what could not be done or known, in words; "" if nothing.
        ended: whether the process is known to have ended, with all that it recorded in its file as far as
            nothing else is said; False if it runs, None if that cannot be known.
        sidecar: the sidecar of a process that had closed its logger, which nobody changes any more; of others
            None.
    """

    file: Path
    rows: int = 0
    trouble: str = ""
    ended: bool | None = True
    sidecar: SidecarDict | None = None

    def __str__(self) -> str:
        said = [f"{_counted(self.rows, 'row')} added that its process had not written"] if self.rows else []
        return "; ".join([*said, *([self.trouble] if self.trouble else [])])


def recover(folder: Path) -> list[Recovery]:
    """Recover the rows of all killed processes whose timing files are in ``folder``.

    The rings of processes that still run are left alone. Those that cannot be reached from here, because
    they are on another machine or another user's, are told of.

    Returns:
        What was done or could not be done, of each file that there was anything to say about.
    """
    return [recovery for recovery in look_into(folder) if str(recovery)]


def look_into(folder: Path) -> list[Recovery]:
    """Do the same, and return what is known of every timing file in ``folder``.

    A file that was removed while its process wrote it counts as long as its sidecar is there.
    """
    removed = (
        path.with_name(path.name.replace(".meta.json", ".csv")) for path in matching(folder, _SIDECARS)
    )
    named = (path for path in sorted(removed) if TimingFile.parse(path.name) is not None)
    return recovered(dict.fromkeys([*timing_files_at(folder), *named]))


def timing_files_at(path: Path) -> list[Path]:
    """Return the timing files in a folder, or the one at a path, each by the path of its first part."""
    found = sorted(matching(path, "timing-rank*.csv")) if path.is_dir() else [path] if path.is_file() else []
    named = [(TimingFile.parse(one.name), one) for one in found]
    return list(dict.fromkeys(one.with_name(name.first.name) for name, one in named if name))


def recovered(timing_files: Iterable[Path]) -> list[Recovery]:
    """Recover the rows of timing files, each named by its first part; wait for others for seconds only."""
    until_s = time.monotonic() + _PATIENCE_S
    return [_recovered_file(path, until_s) for path in each("finding", list(timing_files))]


def _recovered_file(timing_file: Path, until_s: float) -> Recovery:
    sidecar = read_sidecar(timing_file)
    if sidecar is None:
        return Recovery(timing_file, ended=None)
    if _is_complete(sidecar):
        return Recovery(timing_file, sidecar=sidecar if sidecar.get("closed") else None)
    ring = ring_of(sidecar)
    if ring is None:
        return _without_ring(timing_file, sidecar)
    try:
        return _taken_from(ring, timing_file, sidecar, until_s)
    except NotARing as error:
        said = f"what a killed process left in {str(ring)!r} cannot be read: {error}"
        return Recovery(timing_file, 0, said, None)
    except UntrustedFileError as error:
        return _not_trusted(timing_file, sidecar, ring, error)
    except OSError as error:
        if str(error.filename) == str(ring):
            return _out_of_reach(timing_file, sidecar, ring, error)
        why = f"as they cannot be added here: {error.strerror or error}"
        said = f"rows that its process had not written stay in {str(ring)!r}, if any, {why}"
        return Recovery(timing_file, 0, said)


def _taken_from(path: Path, timing_file: Path, sidecar: SidecarDict, until_s: float) -> Recovery:
    """Add what a ring holds to the timing file, if its process is gone; then remove the ring."""
    about = sidecar_path(timing_file)
    try:
        parts = parts_of(timing_file)
    except FileNotFoundError:
        parts = []
    owner = owner_of_both(parts[0], about) if parts else owner_of(about)
    with opened_ring(path, owner) as descriptor:
        header = header_of(descriptor, path, timing_file, sidecar)
        free = _waited_for(descriptor, path, sidecar, until_s)
        if free is None:
            return Recovery(timing_file)
        if not free:
            return _held(timing_file, sidecar, path, header)
        ring = read_ring(descriptor)
        if not parts and (ring.records or ring.open_calls):
            parts = [_next_part(timing_file, sidecar, owner)]
        rows = write_missing(parts, owner, ring)
        # Where nothing can be written, all rows were there before.
        with suppress(OSError, ValueError), held_back():
            mark_killed(sidecar_path(timing_file), ring)
            if not _is_a_copy(timing_file, ring):
                remove(path)
        return Recovery(timing_file, rows, _lost(ring))


def _next_part(timing_file: Path, sidecar: SidecarDict, owner: int) -> Path:
    """Make the part in which rows go on where all others were removed, with the sidecar's permissions."""
    numbers = [name.part for part in sidecar.get("parts") or [] if (name := TimingFile.parse(part["file"]))]
    first = TimingFile.parse(timing_file.name)
    assert first is not None
    path = timing_file.with_name(first._replace(part=max(numbers, default=1) + 1).name)
    create_for(path, owner, stat.S_IMODE(sidecar_path(timing_file).stat().st_mode))
    return path


def _is_complete(sidecar: SidecarDict) -> bool:
    """Tell whether the process closed its logger and had written everything, as far as the sidecar says."""
    counters = sidecar.get("counters") or {}
    return sidecar.get("closed") is not False and not counters.get("dropped") and not counters.get("pending")


def _waited_for(descriptor: int, path: Path, sidecar: SidecarDict, until_s: float) -> bool | None:
    """Tell whether the ring's lock could be had; None if somebody else recovered the ring meanwhile.

    Only a process that is gone is waited for: else its writer has the lock.
    """
    while not locked(descriptor):
        if lives(sidecar) is not False or time.monotonic() >= until_s:
            return False
        time.sleep(_LOOK_S)
    with suppress(OSError):
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return True
    return None


# -- what is said -------------------------------------------------------------------------------------------


def _held(timing_file: Path, sidecar: SidecarDict, ring: Path, header: RingHeader) -> Recovery:
    """Say who holds a ring, as far as that is known."""
    if _may_run(sidecar):
        return Recovery(timing_file, ended=False)
    waiting = _counted(header.head - header.released, "row")
    if lives(sidecar) is None:
        said = f"not closed: {waiting} in {str(ring)!r}, which its process or another one holds"
    else:
        said = (
            f"its process is gone, and {waiting} of it could not be added: another process, such as a child "
            f"of it or one that adds them, holds {str(ring)!r}"
        )
    return Recovery(timing_file, 0, said, None)


def _may_run(sidecar: SidecarDict) -> bool:
    """Tell whether the process runs, or very probably does."""
    state = lives(sidecar)
    return state or (state is None and gave_a_sign_lately(sidecar))


def _without_ring(timing_file: Path, sidecar: SidecarDict, why: str = "") -> Recovery:
    """Say that rows may be missing where a process ended without closing, and left nothing to look at."""
    if sidecar.get("closed") is not False or sidecar.get("killed"):
        return Recovery(timing_file)
    if _may_run(sidecar):
        return Recovery(timing_file, ended=False)
    what = "not closed" if lives(sidecar) is None else "its process ended without closing it"
    reason = why or (sidecar.get("crash_protection") or {}).get("reason") or "no crash protection"
    said = f"{what}: whether rows of its last seconds are missing cannot be known ({reason})"
    return Recovery(timing_file, 0, said, None)


def _out_of_reach(timing_file: Path, sidecar: SidecarDict, ring: Path, error: OSError) -> Recovery:
    """Say what may be missing in a file whose ring cannot be opened."""
    if is_here(sidecar) and not isinstance(error, PermissionError):
        return _without_ring(timing_file, sidecar, f"{str(ring)!r}, which held them, is gone")
    if sidecar.get("closed") is not False or sidecar.get("killed"):
        return Recovery(timing_file)
    if lives(sidecar):
        return Recovery(timing_file, ended=False)
    if isinstance(error, PermissionError):
        where = f"in {str(ring)!r}, which only its user may read: have that user run timing-logger recover"
    else:
        where = f"on {sidecar.get('host') or 'another machine'}: run timing-logger recover there"
    said = f"not closed: rows that its process had not yet written may be {where}"
    return Recovery(timing_file, 0, said, None)


def _not_trusted(timing_file: Path, sidecar: SidecarDict, ring: Path, error: UntrustedFileError) -> Recovery:
    if sidecar.get("closed") is not False:
        return Recovery(timing_file)
    if str(error.filename) == str(ring):
        said = f"not closed, and its ring {str(ring)!r} is not used: {error.strerror}"
    else:
        where = f"{str(error.filename)!r}: {error.strerror}"
        said = f"not closed: rows in {str(ring)!r} cannot be added here: {where}"
    return Recovery(timing_file, 0, said, None)


def _is_a_copy(timing_file: Path, ring: Ring) -> bool:
    """Tell whether the file that the process wrote is another one, which still needs the ring."""
    try:
        if ring.timing_file.samefile(timing_file):
            return False
    except OSError:
        return False
    return (read_sidecar(ring.timing_file) or {}).get("started_unix_ns") == ring.started_unix_ns


def _lost(ring: Ring) -> str:
    lost = ring.elsewhere + ring.damaged
    return f"{_counted(lost, 'record')} lost that only the process held" if lost else ""


def _counted(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"
