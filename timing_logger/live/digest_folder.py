"""Digests pass between hosts: through a folder that they share, or through the store of their job.

In either are the last few digests of each host. In the folder they are files of its own: one appears whole or
not at all, and is replaced a minute later. So the folder stays small, and who comes late reads the last
seconds at once.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING

from timing_logger.errors import LogPathError
from timing_logger.live.digest import Digest
from timing_logger.live.packed import DamagedDigest, unpacked
from timing_logger.process.launchers import Environment
from timing_logger.process.shared_files import (
    content_of,
    entries_in,
    locked,
    make_folder,
    opened_to_append,
    replace,
)
from timing_logger.results import criteria

if TYPE_CHECKING:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

NAME = "monitor"
"""The name of the folder, beside the timing files; it also tells which monitor does what."""

KEPT = 8
"""How many digests there are of each host."""

_FILE_NAME = re.compile(r"(?P<host>.+)\.(?P<place>\d)\.digest")


class DigestFolder:
    """The folder of digests beside the timing files of a run.

    Args:
        log_dir: the folder of the timing files.
    """

    def __init__(self, log_dir: Path) -> None:
        self._folder = log_dir / NAME
        self._read_ns: dict[str, int] = {}
        self._locks: dict[str, IO[bytes]] = {}

    def claim(self, what: str) -> bool:
        """Become the only one that does something, unless another process does it: until this process ends.

        Args:
            what: the name of the host whose digests are written, or of something else.

        Raises:
            OSError: the folder cannot be written to.
        """
        if what in self._locks:
            return True
        make_folder(self._folder, parents=False)
        file = opened_to_append(self._folder / f"{what}.lock")
        if not locked(file.fileno()):
            file.close()
            return False
        self._locks[what] = file
        return True

    def let_go(self) -> None:
        """Give up what was claimed."""
        while self._locks:
            self._locks.popitem()[1].close()

    def write(self, host: str, number: int, data: bytes) -> None:
        """Put a packed digest in the place of the one that came ``KEPT`` digests before.

        Raises:
            OSError: it cannot be written.
        """
        replace(self._folder / f"{host}.{number % KEPT}.digest", data)

    def read(self) -> Iterator[Digest]:
        """Yield the digests that were not read before, those of each host in their order.

        What cannot be read is left out: it is replaced soon.
        """
        found = []
        for path in self._new():
            try:
                found.append(unpacked(content_of(path)))
            except (OSError, DamagedDigest):
                continue
        for digest in sorted(found, key=lambda one: (one.source, one.unix_s, one.number)):
            if time.time() - digest.unix_s < criteria.FRESH_DIGEST_S:
                yield digest

    def _new(self) -> Iterator[Path]:
        with suppress(OSError):
            for entry in entries_in(self._folder):
                changed_ns = entry.stat().st_mtime_ns
                if _FILE_NAME.fullmatch(entry.name) and self._read_ns.get(entry.name) != changed_ns:
                    self._read_ns[entry.name] = changed_ns
                    yield Path(entry.path)


# -- between hosts that do not share the folder ----------------------------------------------------------


_AGAIN_S = 30.0  # after the store did not answer: each try may take some seconds


class Elsewhere:
    """What passes between the hosts of a job beside the log folder.

    Attributes:
        pid: of a rank on this host, whose environment tells where the store is if that of this process does
            not: a launcher states it to the ranks only. None if it is not known.
    """

    def __init__(self) -> None:
        self.pid: int | None = None
        self._store: DigestStore | None = None
        self._not_before_s = 0.0
        self._without_any_since_s: float | None = None

    def write(self, number: int, data: bytes) -> None:
        """Put the packed digest of this host where the monitor that judges finds it.

        Raises:
            LogPathError: there is no such place, and rank 0 had time to begin.
            Exception: whatever torch raises, if the store does not answer.
        """
        if self._is_left_alone():
            return
        if (address := self._address()) is None:
            self._check_is_early()
            return
        with self._asked(address) as store:
            store.write(number, data)

    def read(self) -> Iterator[Digest]:
        """Yield the new digests of other hosts.

        Raises:
            Exception: whatever torch raises, if the store does not answer.
        """
        if not self._is_left_alone() and (address := self._address()) is not None:
            with self._asked(address) as store:
                yield from store.read()

    def _check_is_early(self) -> None:
        now_s = time.monotonic()
        if self._without_any_since_s is None:
            self._without_any_since_s = now_s
        if now_s - self._without_any_since_s >= criteria.GONE_AFTER_S:
            raise LogPathError(
                "the files of rank 0 are not in this host's log folder, and the job has no store. Put "
                "log_dir on a file system that the hosts share."
            )

    def _address(self) -> tuple[str, int] | None:
        own = address_of(os.environ)
        return own if own or self.pid is None else address_of(environment_of(self.pid))

    @contextmanager
    def _asked(self, address: tuple[str, int]) -> Iterator[DigestStore]:
        """Ask the store, and leave it alone for a while if it does not answer."""
        try:
            self._store = self._store or DigestStore(*address)
            yield self._store
        except Exception:
            self._store, self._not_before_s = None, time.monotonic() + _AGAIN_S
            raise

    def _is_left_alone(self) -> bool:
        return time.monotonic() < self._not_before_s


# -- the store through which digests pass -------------------------------------------------------------
# It is that by which a job's ranks found each other: the ``TCPStore`` of torch.distributed at ``MASTER_ADDR``
# and ``MASTER_PORT``. It is no communicator of the training, and no rank waits for what is in it.


_PREFIX = "timing_logger/digests"
_LIMIT = timedelta(seconds=5)


def address_of(environment: Environment) -> tuple[str, int] | None:
    """Return host and port of the store of the job whose processes have this environment; None without."""
    host, port = environment.get("MASTER_ADDR", ""), environment.get("MASTER_PORT", "")
    return (host, int(port)) if host and port.isdecimal() else None


def environment_of(pid: int) -> Environment:
    """Return the environment of a process of this host and user; nothing of any other."""
    try:
        stated = content_of(Path(f"/proc/{pid}/environ")).split(b"\0")
    except OSError:
        return {}
    pairs = (entry.decode(errors="replace").partition("=") for entry in stated)
    return {name: value for name, _, value in pairs}


class DigestStore:
    """The digests in a store: a number for each host, and its last few digests under that.

    Args:
        host, port: where the store is.

    Raises:
        ImportError: there is no torch.
        Exception: from each method whatever torch raises, if the store does not answer within five seconds.
    """

    def __init__(self, host: str, port: int) -> None:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        self._store: TCPStore = TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=_LIMIT)
        self._own: int | None = None
        self._seen: dict[int, int] = {}

    def write(self, number: int, data: bytes) -> None:
        """Put the digest of this host in the place of the one that came ``KEPT`` digests before."""
        if self._own is None:
            self._own = self._store.add(f"{_PREFIX}/hosts", 1) - 1
        self._store.set(f"{_PREFIX}/{self._own}/{number % KEPT}", data)  # type: ignore[arg-type]
        self._store.set(f"{_PREFIX}/{self._own}/latest", str(number))

    def read(self) -> Iterator[Digest]:
        """Yield the digests that were not read before, those of each host in their order."""
        for host in range(self._store.add(f"{_PREFIX}/hosts", 0)):
            if not self._store.check([f"{_PREFIX}/{host}/latest"]):
                continue
            latest = int(self._store.get(f"{_PREFIX}/{host}/latest"))
            for number in range(max(self._seen.get(host, -1) + 1, latest - KEPT + 2), latest + 1):
                with suppress(DamagedDigest):
                    yield unpacked(self._store.get(f"{_PREFIX}/{host}/{number % KEPT}"))
            self._seen[host] = latest
