"""Hosts of a job that do not share the log folder are heard through the job's store, if it has one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from timing_logger.engine.live.digest import Digest
from timing_logger.errors import LogPathError
from timing_logger.monitoring.digest_store import DigestStore, StoreAddress, address_of, environment_of

_AGAIN_S = 30.0  # after the store did not answer: each try may take some seconds
_LATE_S = 30.0  # ranks of a job may begin so long after one another: rank 0 is not missing yet


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
        if self._address() is None:
            self._check_is_early()
            return
        try:
            self._opened().write(number, data)
        except Exception:
            self._give_up()
            raise

    def read(self) -> Iterator[Digest]:
        """Yield the new digests of other hosts.

        Raises:
            Exception: whatever torch raises, if the store does not answer.
        """
        if self._is_left_alone() or self._address() is None:
            return
        try:
            yield from self._opened().read()
        except Exception:
            self._give_up()
            raise

    def _check_is_early(self) -> None:
        now_s = time.monotonic()
        if self._without_any_since_s is None:
            self._without_any_since_s = now_s
        if now_s - self._without_any_since_s >= _LATE_S:
            raise LogPathError(
                "the files of rank 0 are not in this host's log folder, and the job has no store. Put "
                "log_dir on a file system that the hosts share."
            )

    def _address(self) -> StoreAddress | None:
        own = address_of(os.environ)
        return own if own or self.pid is None else address_of(environment_of(self.pid))

    def _opened(self) -> DigestStore:
        if self._store is None:
            address = self._address()
            assert address is not None
            self._store = DigestStore(address)
        return self._store

    def _is_left_alone(self) -> bool:
        return time.monotonic() < self._not_before_s

    def _give_up(self) -> None:
        self._store, self._not_before_s = None, time.monotonic() + _AGAIN_S
