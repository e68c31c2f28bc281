"""Digests of several hosts, in a folder that they share: each host's last few, in files of its own.

A file appears whole or not at all, and is replaced a minute later. So the folder stays small, and who comes
late reads the last seconds at once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from timing_logger.live.digest import Digest
from timing_logger.live.packed import DamagedDigest, unpacked
from timing_logger.process.shared_files import (
    content_of,
    entries_in,
    locked,
    make_folder,
    opened_to_append,
    replace,
)
from timing_logger.results import criteria

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
        found = [digest for path in self._new() if (digest := _digest(path)) is not None]
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


def _digest(path: Path) -> Digest | None:
    try:
        return unpacked(content_of(path))
    except (OSError, DamagedDigest):
        return None
